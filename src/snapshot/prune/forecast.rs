//! Counts what removing snapshots would free, from extents and inodes: the one figure of `prune --dry-run`, of
//! `remove --dry-run` and of `du --snapshots`. `steps` removes, `space` counts afterwards.

use crate::error::Result;
use crate::fs::filesystem::Kind;
use crate::monitor::Monitor;
use crate::snapshot::kept::{self, Work};
use crate::snapshot::repository::{self, Repository};
use crate::usage::{self, Bound};
use std::path::PathBuf;

/// The space that removing all these snapshots together would free, and the number of failures, which were reported to
/// the monitor. It takes no lock and writes nothing.
///
/// If all of them have maps (`kept`), only what may have changed is examined.
pub(in crate::snapshot) fn forecast(
    repository: &Repository,
    names: &[String],
    options: &usage::Options,
    monitor: &dyn Monitor,
) -> Result<(usage::Freed, u64)> {
    if names.is_empty() {
        return Ok((usage::Freed::default(), 0));
    }
    if let Some(figures) = kept::figures(repository, names, (false, false), options, monitor, &mut Work::default())? {
        return Ok((figures.set, 0));
    }
    measure(repository, names, options, monitor)
}

/// The same, without the kept maps.
pub(in crate::snapshot) fn measure(
    repository: &Repository,
    names: &[String],
    options: &usage::Options,
    monitor: &dyn Monitor,
) -> Result<(usage::Freed, u64)> {
    let paths: Vec<PathBuf> = names.iter().flat_map(|name| repository::parts(repository, name)).collect();
    let (mut freed, errors) = usage::freed(&paths, options, monitor)?;
    // The trees of Btrfs shrink too; by how much is not known beforehand.
    let has_trees = Kind::of(repository.fd()).is_ok_and(|kind| kind == Kind::Btrfs);
    freed.bound = freed.bound.and(Bound::of(has_trees, false));
    Ok((freed, errors))
}

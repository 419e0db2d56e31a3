//! Counts what removing snapshots would free, from extents and inodes: the one figure of `prune --dry-run`, of
//! `remove --dry-run` and of `du --snapshots` without maps. `steps` removes, `space` counts afterwards.

use crate::error::Result;
use crate::monitor::Monitor;
use crate::snapshot::repository::{self, Repository};
use crate::usage;
use std::path::PathBuf;

/// The space that removing all these snapshots together would free, and the number of failures, which were reported to
/// the monitor. It takes no lock and writes nothing. It does not use kept maps, because their figures are bounds.
pub(in crate::snapshot) fn forecast(
    repository: &Repository,
    names: &[String],
    options: &usage::Options,
    monitor: &dyn Monitor,
) -> Result<(usage::Freed, u64)> {
    if names.is_empty() {
        return Ok((usage::Freed::default(), 0));
    }
    let paths: Vec<PathBuf> = names.iter().flat_map(|name| repository::parts(repository, name)).collect();
    usage::freed(&paths, repository::latest_that_goes(repository, names).as_ref(), options, monitor)
}

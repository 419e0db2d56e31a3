//! Removes single snapshots.

use super::prune::steps::{Manner, Removal};
use super::prune::{Reason, Row, Stats, Stopped};
use super::repository::Repository;
use crate::error::{Advice, Error};
use crate::monitor::Monitor;
use std::path::Path;
use std::time::Instant;

/// How to remove.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// Change nothing, and count from extents what would be freed.
    pub dry_run: bool,
    /// Do not wait until the space of removed snapshots is free: only the space that is free by then is counted.
    pub no_wait: bool,
    /// How many threads delete; by default twice as many as there are processors.
    pub threads: Option<usize>,
}

/// Removes the snapshots that `ids` mean from the repository at `repo`. Pinned ones are kept and reported.
///
/// ```
/// use pleach::monitor::Silent;
/// use pleach::snapshot::{create, remove};
/// let dir = tempfile::tempdir()?;
/// let (source, repo) = (dir.path().join("source"), dir.path().join("repo"));
/// std::fs::create_dir(&source)?;
/// std::fs::write(source.join("letter"), "Dear Ann")?;
/// create::create(&[source], &repo, &create::Options::default(), &Silent)?;
///
/// let stats = remove::remove(&repo, &["latest"], &remove::Options::default(), &Silent)?;
/// assert_eq!((stats.kept, stats.removed), (0, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If an ID means no snapshot or several, the repository cannot be opened or is locked, or the run is cancelled. In the
/// first three cases nothing is removed. In the last one, [`Stopped`] has what had become of the snapshots by then.
pub fn remove(repo: &Path, ids: &[&str], options: &Options, monitor: &dyn Monitor) -> Result<Stats, Stopped> {
    let begun = Instant::now();
    let repository = Repository::open(repo)?;
    let manner = Manner { dry_run: options.dry_run, no_wait: options.no_wait, threads: options.threads };
    let mut removal = Removal::begin(&repository, manner, monitor)?;
    let mut rows: Vec<Row> = Vec::new();
    for id in ids {
        let name = repository.name_of(id).map_err(|error| error.hint_also("nothing was removed"))?;
        if rows.iter().any(|row| row.name == name) {
            continue;
        }
        // Its manifest may be damaged.
        let info = repository.info(&name).ok();
        let created = info.as_ref().map(|info| info.header.created);
        let is_pinned = match &info {
            Some(info) => removal.marks(info).pinned,
            None => removal.marks_of(&name, &[]).pinned,
        };
        let mut reasons = Vec::new();
        if is_pinned {
            let error = Error::failed("remove the snapshot").at(repo.join(&name)).with_code("pinned");
            removal.problem(&error.hint("it is pinned").advise(Advice::Unpin));
            reasons.push(Reason::Pinned);
        }
        rows.push(Row { name, created, kept: true, reasons });
    }
    let going: Vec<String> = rows.iter().filter(|row| row.reasons.is_empty()).map(|row| row.name.clone()).collect();
    let removed = removal.remove(&going);
    removal.finish(rows, removed, begun)
}

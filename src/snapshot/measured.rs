//! Snapshots that are deleted while they are measured. No lock keeps them meanwhile: measuring can take long, and must
//! not prevent a removal.

use super::repository::{CONTROL, Repository};
use crate::error::{Error, Result};
use crate::monitor::attempts::Attempts;
use crate::monitor::{Event, Monitor};
use std::path::{Path, PathBuf};

/// Measures snapshots. One that is deleted meanwhile is reported, once and by its name. Then the figures of the others
/// may be wrong, because they shared data with it: they are measured again. Returns the snapshots of the result.
pub(super) fn measured<T>(
    repository: &Repository,
    mut names: Vec<String>,
    monitor: &dyn Monitor,
    mut measure: impl FnMut(&[String], &dyn Monitor) -> Result<T>,
) -> Result<(Vec<String>, T)> {
    let mut attempts = Attempts::new(monitor);
    // Each round has fewer names.
    loop {
        let result = measure(&names, &Present::new(repository, &names, &attempts));
        let (rest, deleted): (Vec<String>, Vec<String>) =
            names.into_iter().partition(|name| is_there(repository, name));
        if deleted.is_empty() {
            return Ok((rest, result?));
        }
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        deleted.iter().for_each(|name| monitor.event(Event::SnapshotNotMeasured(name)));
        names = rest;
        attempts = attempts.again();
    }
}

/// Whether a snapshot still exists. If the repository cannot be read, the measurement reports that.
fn is_there(repository: &Repository, name: &str) -> bool {
    repository.has_snapshot(name).unwrap_or(true)
}

/// Passes on everything but problems in deleted snapshots. A snapshot is deleted by a rename, before its files are.
struct Present<'a> {
    repository: &'a Repository,
    /// The repository without links in its path.
    root: Option<PathBuf>,
    names: &'a [String],
    inner: &'a dyn Monitor,
}

impl<'a> Present<'a> {
    fn new(repository: &'a Repository, names: &'a [String], inner: &'a dyn Monitor) -> Present<'a> {
        Present { repository, root: repository.path().canonicalize().ok(), names, inner }
    }

    /// The measured snapshot that a path belongs to: it is in its tree, or is one of its records.
    fn snapshot_of(&self, path: &Path) -> Option<&String> {
        let roots = [Some(self.repository.path()), self.root.as_deref()];
        let inside = roots.into_iter().flatten().find_map(|root| path.strip_prefix(root).ok())?;
        let mut parts = inside.iter();
        let first = parts.next()?;
        let name = if first == CONTROL { parts.nth(1)? } else { first };
        self.names.iter().find(|known| name == known.as_str())
    }
}

impl Monitor for Present<'_> {
    fn inner(&self) -> Option<&dyn Monitor> {
        Some(self.inner)
    }

    fn problem(&self, error: &Error) {
        let snapshot = error.path().and_then(|path| self.snapshot_of(path));
        if snapshot.is_none_or(|name| is_there(self.repository, name)) {
            self.inner.problem(error);
        }
    }
}

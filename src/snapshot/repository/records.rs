//! The files about one snapshot beside its manifest: in `.pleach/KIND/NAME`. A snapshot without them is complete, so
//! nothing here fails a run. But without `origin`, a replica is taken for another snapshot. `added`, `origin`, `maps`,
//! `problems` and `seen` know their content.

use super::added::ADDED;
use super::dir::{Dir, os};
use super::handle::Repository;
use super::maps::USAGE;
use super::origin::ORIGIN;
use super::problems::PROBLEMS;
use super::seen::SEEN;

/// The directories of these files, in the control directory.
pub(super) const KINDS: [&str; 5] = [ADDED, ORIGIN, USAGE, PROBLEMS, SEEN];

/// Removes the files of snapshots that no longer exist, and unfinished ones.
pub(super) fn clear(repository: &Repository) {
    for dir in dirs(repository) {
        for name in dir.names().unwrap_or_default() {
            if repository.is_gone(os(&name)).unwrap_or(false) {
                let _ = dir.unlink(os(&name));
            }
        }
    }
}

/// Removes the files of one snapshot.
pub(super) fn remove(repository: &Repository, name: &str) {
    for dir in dirs(repository) {
        let _ = dir.unlink(name);
    }
}

fn dirs(repository: &Repository) -> impl Iterator<Item = Dir> {
    KINDS.into_iter().filter_map(|kind| repository.control.dir_if_any(kind))
}

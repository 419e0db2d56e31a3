//! Entries that a run skipped with an error: nothing is known about them, nor about anything below them. A snapshot
//! without them is incomplete.

use super::repository::{self, Problems, Repository};
use crate::monitor::{Event, Monitor};
use crate::snapshot::manifest::Totals;
use crate::util::path::split;
use std::collections::HashSet;

/// A set of paths without their leading slash, each with everything below it.
#[derive(Debug, Default)]
pub(crate) struct Subtrees(HashSet<Vec<u8>>);

impl Subtrees {
    /// Adds a path.
    pub(crate) fn add(&mut self, path: &[u8]) {
        self.0.insert(path.to_vec());
    }

    /// Whether a path is one of them or lies in one.
    pub(crate) fn has(&self, mut path: &[u8]) -> bool {
        while !self.0.is_empty() {
            if self.0.contains(path) {
                return true;
            }
            if path.is_empty() {
                break;
            }
            path = split(path).0;
        }
        false
    }
}

/// What an incomplete snapshot lacks.
#[derive(Debug)]
pub(crate) struct Skipped {
    snapshot: String,
    problems: u64,
    known: u64,
    paths: Subtrees,
    /// Whether `paths` are all that the run skipped.
    are_all: bool,
}

impl Skipped {
    /// What a snapshot lacks, by its sums and by the record of its run. `None`: it is complete.
    pub(crate) fn of(repository: &Repository, snapshot: &str, totals: &Totals) -> Option<Skipped> {
        let recorded = repository::problems(repository, snapshot);
        if recorded.is_none() && totals.errors == 0 {
            return None;
        }
        let Problems { count, skipped, skipped_count, .. } = recorded.unwrap_or_default();
        let are_all = skipped_count == Some(skipped.len() as u64) && count >= totals.errors;
        if skipped.is_empty() && (are_all || totals.errors == 0) {
            return None;
        }
        let mut paths = Subtrees::default();
        skipped.iter().for_each(|path| paths.add(path));
        let problems = totals.errors.max(count);
        Some(Skipped { snapshot: snapshot.to_string(), problems, known: skipped.len() as u64, paths, are_all })
    }

    /// Whether the run skipped this path, or a directory above it.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        self.paths.has(path)
    }

    /// Whether any path that the snapshot lacks may have been skipped, because not all are recorded.
    pub(crate) fn may_have_others(&self) -> bool {
        !self.are_all
    }

    /// Warns that the snapshot is incomplete.
    pub(crate) fn report(&self, monitor: &dyn Monitor) {
        let Skipped { snapshot, problems, known, are_all, .. } = self;
        let skipped = are_all.then_some(*known);
        monitor.event(Event::SnapshotIncomplete { snapshot, problems: *problems, skipped });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subtree_has_its_path_and_everything_below_it() {
        let mut subtrees = Subtrees::default();
        assert!(!subtrees.has(b"") && !subtrees.has(b"a"));
        subtrees.add(b"a/b");
        for (path, is_in) in [("a/b", true), ("a/b/c/d", true), ("a", false), ("a/bc", false), ("", false)] {
            assert_eq!(subtrees.has(path.as_bytes()), is_in, "{path}");
        }
        subtrees.add(b"");
        assert!(subtrees.has(b"") && subtrees.has(b"x/y"));
    }
}

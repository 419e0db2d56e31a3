//! The snapshots of a repository that another place may lack, with their identities, and which are wanted there.

use super::repository::{self, Repository, SnapshotInfo};
use crate::error::{Error, Result};
use crate::monitor::{Event, Monitor};
use std::collections::HashSet;

/// Which snapshots are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// All.
    All,
    /// This many of the newest.
    Last(usize),
    /// Those with these names.
    Named(HashSet<String>),
}

impl Selection {
    /// The snapshots with these IDs. Without any: all, or the last ones.
    ///
    /// # Errors
    /// If an ID is unknown.
    pub(super) fn resolve(repository: &Repository, ids: &[String], last: Option<usize>) -> Result<Selection> {
        if !ids.is_empty() {
            let names = ids.iter().map(|id| Ok(repository.resolve(id)?.name));
            return Ok(Selection::Named(names.collect::<Result<_>>()?));
        }
        Ok(last.map_or(Selection::All, Selection::Last))
    }

    /// Whether the snapshot of this name is wanted, which `newer` others follow.
    fn wants(&self, name: &str, newer: usize) -> bool {
        match self {
            Selection::All => true,
            Selection::Last(count) => newer < *count,
            Selection::Named(names) => names.contains(name),
        }
    }
}

/// A snapshot of the repository.
pub(super) struct Outgoing {
    pub(super) info: SnapshotInfo,
    pub(super) identity: [u8; 32],
    /// Whether it is sent if the other place lacks it.
    pub(super) is_wanted: bool,
}

/// The snapshots of the repository, oldest first, and the errors of those that are wanted and cannot be read.
pub(super) fn snapshots(
    repository: &Repository,
    selection: &Selection,
    monitor: &dyn Monitor,
) -> Result<(Vec<Outgoing>, Vec<Error>)> {
    let listing = repository.listing()?;
    let mut problems = match selection {
        Selection::Named(_) => Vec::new(),
        _ => listing.problems,
    };
    let number = listing.snapshots.len();
    let mut found = Vec::new();
    for (at, info) in listing.snapshots.into_iter().enumerate() {
        let is_wanted = selection.wants(&info.name, number - at - 1);
        match repository::identity(repository, &info.name) {
            Ok(identity) => found.push(Outgoing { info, identity, is_wanted }),
            Err(_) if !is_wanted => {}
            Err(_) if !repository.has_snapshot(&info.name)? => monitor.event(Event::SnapshotNotSent(&info.name)),
            Err(error) => problems.push(error),
        }
    }
    Ok((found, problems))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_snapshots_are_those_that_fewer_others_follow() {
        let wanted = |selection: Selection| {
            let names = ["a", "b", "c"];
            let is_wanted = |at: &usize| selection.wants(names[*at], names.len() - at - 1);
            (0..names.len()).filter(is_wanted).map(|at| names[at]).collect::<Vec<_>>()
        };
        assert_eq!(wanted(Selection::All), ["a", "b", "c"]);
        assert_eq!(wanted(Selection::Last(2)), ["b", "c"]);
        assert_eq!(wanted(Selection::Last(9)), ["a", "b", "c"]);
        assert!(wanted(Selection::Last(0)).is_empty());
        assert_eq!(wanted(Selection::Named(["b".into()].into())), ["b"]);
    }
}

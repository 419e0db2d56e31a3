//! Looks up entries: adjacent paths together, and each snapshot by itself. Entries that are adjacent in a snapshot are
//! often in the same blocks of their directory and of their inodes. Threads that need the same block at once would wait
//! for each other, and for one read instead of many.

use super::context::Context;
use super::member::Members;
use super::progress::Ticket;
use crate::util::mutex::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// How many adjacent paths are looked up together.
pub(super) const PATHS: usize = 64;

/// Paths, each with its part of a batch.
pub(super) type Paths = Vec<(Arc<Members>, Ticket)>;

/// The entries of one snapshot in adjacent paths.
pub(super) struct Lookup {
    entries: Vec<(Arc<Members>, usize)>,
    /// The paths, in one piece, for whoever finds the last entry.
    group: Arc<Mutex<Group>>,
}

struct Group {
    paths: Paths,
    /// How many snapshots are still to be looked up.
    left: usize,
}

impl Lookup {
    /// What must be looked up for adjacent paths. Returns the paths if that is nothing.
    ///
    /// # Errors
    /// The paths.
    pub(super) fn all(paths: Paths) -> Result<Vec<Lookup>, Paths> {
        let mut snapshots = BTreeMap::<usize, Vec<_>>::new();
        for (members, _) in &paths {
            for (number, member) in members.all.iter().enumerate() {
                snapshots.entry(member.snapshot).or_default().push((Arc::clone(members), number));
            }
        }
        if snapshots.is_empty() {
            return Err(paths);
        }
        let group = Arc::new(Mutex::new(Group { paths, left: snapshots.len() }));
        Ok(snapshots.into_values().map(|entries| Lookup { entries, group: Arc::clone(&group) }).collect())
    }

    /// Looks up the entries. Returns the paths when all their entries are looked up.
    pub(super) fn run(self, context: &Context<'_>) -> Paths {
        for (members, number) in self.entries {
            if context.monitor.is_cancelled() {
                break;
            }
            let member = &members.all[number];
            if !context.snapshots[member.snapshot].is_deleted() {
                let _ = member.status();
            }
        }
        let mut group = lock(&self.group);
        group.left -= 1;
        if group.left == 0 { std::mem::take(&mut group.paths) } else { Paths::new() }
    }
}

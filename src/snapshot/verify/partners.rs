//! The other names of damaged files with several names in one snapshot: a repaired name becomes a link to them again.

use super::context::Snapshot;
use super::work::{self, Work};
use crate::snapshot::manifest::Item;
use crate::tree::inode_map::Identity;
use crate::util::path::join;
use std::collections::{HashMap, HashSet};

/// Another name of a file.
#[derive(Clone, Debug)]
pub(super) struct Partner {
    pub(super) path: Vec<u8>,
    /// Whether this run made its content, so it is sound.
    pub(super) is_made: bool,
}

/// The names, by snapshot and inode. Their number is at most that of the damaged files.
#[derive(Debug, Default)]
pub(super) struct Partners {
    inodes: HashMap<(usize, Vec<u8>), Identity>,
    names: HashMap<(usize, Identity), Partner>,
}

impl Partners {
    /// Finds names that are not damaged. Reads the manifests of snapshots with such files once more.
    pub(super) fn find(snapshots: &[Snapshot], works: &[Work]) -> Partners {
        let mut found = Partners::default();
        for work in works.iter().filter(|work| work.has_names) {
            if let Ok(Some(inode)) = work::entry(&snapshots[work.snapshot], &work.path)
                .map(|entry| entry.and_then(|entry| work::inode(&entry)))
            {
                found.inodes.insert((work.snapshot, work.path.clone()), inode);
            }
        }
        let wanted: HashSet<_> = found.inodes.iter().map(|((snapshot, _), inode)| (*snapshot, *inode)).collect();
        let concerned: HashSet<_> = wanted.iter().map(|(snapshot, _)| *snapshot).collect();
        for snapshot in concerned {
            let mut items = snapshots[snapshot].manifest.items();
            while let Some(item) = items.next() {
                let Ok(Item::Entry(entry)) = item else { continue };
                let Some(inode) = work::inode(&entry).filter(|inode| wanted.contains(&(snapshot, *inode))) else {
                    continue;
                };
                let path = join(items.directory(), &entry.name);
                if !found.inodes.contains_key(&(snapshot, path.clone())) {
                    found.names.entry((snapshot, inode)).or_insert(Partner { path, is_made: false });
                }
            }
        }
        found
    }

    /// Another name of a damaged file.
    pub(super) fn of(&self, work: &Work) -> Option<&Partner> {
        let inode = self.inodes.get(&(work.snapshot, work.path.clone()))?;
        self.names.get(&(work.snapshot, *inode)).filter(|partner| partner.path != work.path)
    }

    /// Notes that a file was repaired, so other names become links to it.
    pub(super) fn made(&mut self, work: &Work) {
        if let Some(inode) = self.inodes.get(&(work.snapshot, work.path.clone())) {
            let partner = Partner { path: work.path.clone(), is_made: true };
            let name = self.names.entry((work.snapshot, *inode)).or_insert_with(|| partner.clone());
            if !name.is_made {
                // Either it is the same inode now, or it was not sound.
                *name = partner;
            }
        }
    }
}

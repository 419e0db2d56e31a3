//! The part of the sources that a run looks at, if it looks only at what changed.
//!
//! A directory is listed if it is new, renamed, or has another change time than in the last snapshot. In others, only
//! the names on the way to changed inodes are looked at. `merge` takes all other records over from the last manifest.

use super::scope::Scope;
use crate::snapshot::manifest::Directory as Record;
use crate::snapshot::repository::{Seen, SeenSubvolume};
use crate::tree::changed::{Changed, NEWEST};
use crate::tree::exclude::CACHE_TAG;
use crate::tree::walk::Directory;
use std::collections::{BTreeSet, HashMap};

/// The part of the sources that a run looks at.
pub(super) struct Narrowing {
    /// Subvolumes with known changes, by device.
    pub(super) known: HashMap<u64, SubvolumeChanges>,
    /// For each directory, names in it that are looked at whether they changed or not.
    pub(super) ways: HashMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    /// Everything is looked at, and a change that a narrow walk would have missed is reported.
    pub(super) is_check: bool,
    /// Whether cache directories are excluded.
    pub(super) caches: bool,
    /// What the last run saw.
    pub(super) seen: Seen,
}

/// A subvolume with known changes.
pub(super) struct SubvolumeChanges {
    /// Its device in the last manifest.
    pub(super) number: u64,
    pub(super) then: SeenSubvolume,
    pub(super) changed: Changed,
}

impl Narrowing {
    /// The part of a directory that is looked at. `old` is its record in the last snapshot, and `is_untouched` whether
    /// it has not changed since.
    pub(super) fn scope(&self, directory: &Directory<()>, old: Option<&Record>, is_untouched: bool) -> Scope {
        let Some(known) = self.known.get(&directory.status.dev) else { return Scope::Whole };
        let is_same = |old: &Record| (old.meta.dev, old.meta.ino) == (known.number, directory.status.ino);
        if directory.scaffold || !is_untouched || !old.is_some_and(is_same) {
            return Scope::Whole;
        }
        let changed = known.changed.names(directory.status.ino).cloned().unwrap_or_default();
        if self.caches && changed.contains(CACHE_TAG) {
            return Scope::Whole;
        }
        let always = self.ways.get(&directory.path);
        Scope::Only(changed.into_iter().chain(always.into_iter().flatten().cloned()).collect())
    }

    /// The device of a subvolume in the last manifest, by its device now, and the inodes in it that changed last, with
    /// the transactions of their changes.
    pub(super) fn recorded(&self, dev: u64) -> Option<(u64, Vec<(u64, u64)>)> {
        self.known.get(&dev).map(|known| (known.number, known.newest()))
    }

    /// The subvolume that had this device in the last manifest, with its device now.
    pub(super) fn known_by_number(&self, number: u64) -> Option<(u64, &SubvolumeChanges)> {
        self.known.iter().find(|(_, known)| known.number == number).map(|(dev, known)| (*dev, known))
    }

    /// Whether the last manifest has a device with this number.
    pub(super) fn has_number(&self, number: u64) -> bool {
        self.seen.tops.iter().any(|top| top.dev == number)
    }

    /// Whether this entry is looked at although it did not change.
    pub(super) fn is_unsettled(&self, directory: &[u8], name: &[u8]) -> bool {
        self.ways.get(directory).is_some_and(|names| names.contains(name))
    }
}

impl SubvolumeChanges {
    /// Whether this inode changed.
    pub(super) fn has_changed(&self, number: u64) -> bool {
        self.changed.has(number)
    }

    fn newest(&self) -> Vec<(u64, u64)> {
        let before = self.then.newest.iter().filter(|(number, _)| !self.changed.has(*number));
        let mut newest: Vec<_> = before.chain(self.changed.newest()).copied().collect();
        newest.sort_unstable_by_key(|(_, transaction)| std::cmp::Reverse(*transaction));
        newest.truncate(NEWEST);
        newest
    }
}

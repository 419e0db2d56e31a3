//! The part of the sources that a run looks at, if it looks only at what changed.
//!
//! A directory is listed if it is new, renamed, or has another change time than in the last snapshot. In others, only
//! the names on the way to changed inodes are looked at. `merge` takes all other records over from the last manifest.

use super::scope::Scope;
use super::ways::Ways;
use crate::snapshot::manifest::Directory as Record;
use crate::snapshot::repository::Seen;
use crate::tree::changed::Changed;
use crate::tree::exclude::CACHE_TAG;
use crate::tree::walk::Directory;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The part of the sources that a run looks at.
pub(super) struct Narrowing {
    /// Parts of the sources with known changes, by device.
    pub(super) known: HashMap<u64, KnownPart>,
    /// The ways to entries that are looked at because of their paths.
    pub(super) ways: Ways,
    /// Everything is looked at, and a change that a narrow walk would have missed is reported.
    pub(super) is_check: bool,
    /// Whether cache directories are excluded.
    pub(super) caches: bool,
    /// What the last run saw.
    pub(super) seen: Seen,
}

/// A part of the sources with known changes.
pub(super) struct KnownPart {
    /// Its device in the last manifest.
    pub(super) number: u64,
    pub(super) changes: Changes,
}

/// What changed in a part of the sources.
pub(super) enum Changes {
    /// The changes in a subvolume.
    Subvolume(Box<Changed>),
    /// An XFS, and the inodes that changed. [`Narrowing::ways`] has their paths.
    Xfs(HashSet<u64>),
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
        let mut names = known.changes.names(directory.status.ino).cloned().unwrap_or_default();
        names.extend(self.ways.names(&directory.path).cloned());
        // It may have become a tag, or no longer be one.
        if self.caches && names.contains(CACHE_TAG) { Scope::Whole } else { Scope::Only(names) }
    }

    /// The device of a part in the last manifest, by its device now.
    pub(super) fn recorded(&self, dev: u64) -> Option<u64> {
        self.known.get(&dev).map(|known| known.number)
    }

    /// The part that had this device in the last manifest, with its device now.
    pub(super) fn known_by_number(&self, number: u64) -> Option<(u64, &KnownPart)> {
        self.known.iter().find(|(_, known)| known.number == number).map(|(dev, known)| (*dev, known))
    }

    /// Whether the last manifest has a device with this number.
    pub(super) fn has_number(&self, number: u64) -> bool {
        self.seen.tops.iter().any(|top| top.dev == number)
    }

    /// Whether this entry is looked at although it did not change.
    pub(super) fn is_unsettled(&self, directory: &[u8], name: &[u8]) -> bool {
        self.ways.has(directory, name)
    }
}

impl Changes {
    /// Whether this inode changed.
    pub(super) fn has(&self, number: u64) -> bool {
        match self {
            Changes::Subvolume(changed) => changed.has(number),
            Changes::Xfs(inodes) => inodes.contains(&number),
        }
    }

    /// How many inodes changed.
    pub(super) fn len(&self) -> usize {
        match self {
            Changes::Subvolume(changed) => changed.len(),
            Changes::Xfs(inodes) => inodes.len(),
        }
    }

    /// The names in a directory that lead to changed inodes, if the filesystem itself shows them.
    fn names(&self, directory: u64) -> Option<&BTreeSet<Vec<u8>>> {
        match self {
            Changes::Subvolume(changed) => changed.names(directory),
            Changes::Xfs(_) => None,
        }
    }
}

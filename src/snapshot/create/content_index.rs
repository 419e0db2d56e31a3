//! An index of the last snapshot's files by content and by inode. It finds content that has another name now.
//! `renamed_file` uses it.

use super::previous::Previous;
use crate::fs::status::Status;
use crate::monitor::{Event, Monitor};
use crate::snapshot::lookup::{Gathering, Lookup, identity};
use crate::snapshot::manifest::{Address, Item, Meta};
use crate::util::digest;

/// How many files are indexed by content, and how many by inode: 32 MiB each.
const MOST: usize = 2 << 20;
/// How many files of the same size and fingerprint are examined.
pub(super) const TRIES: usize = 8;

/// The last snapshot's files.
#[derive(Debug)]
pub(super) struct ContentIndex {
    by_content: Lookup,
    by_inode: Lookup,
}

impl ContentIndex {
    /// Reads the manifest of the last snapshot.
    pub(super) fn of(previous: &Previous, monitor: &dyn Monitor) -> ContentIndex {
        let (mut by_content, mut by_inode) = (Gathering::new(MOST), Gathering::new(MOST));
        let mut items = previous.reader.items();
        while let Some(item) = items.next() {
            // Damaged blocks are skipped here. The merge meets them too and reports them.
            let Ok(Item::Entry(entry)) = item else { continue };
            let Some(file) = entry.file().filter(|file| file.size > 0 && !file.changed) else { continue };
            let Some(place) = items.address().number() else { continue };
            if let Some(hash) = &file.hash {
                by_content.add(file.size, digest::prefix(hash), place);
            }
            let Meta { ino, mtime, ctime, recheck, .. } = entry.meta;
            if !recheck {
                by_inode.add(file.size, identity(ino, mtime, ctime), place);
            }
        }
        let (by_content, by_inode) = (by_content.end(), by_inode.end());
        if by_content.least() > 0 {
            monitor.event(Event::SmallRenamesIgnored { bytes: by_content.least() });
        }
        ContentIndex { by_content, by_inode }
    }

    /// Files of this size with an inode of this identity.
    pub(super) fn of_inode(&self, status: &Status) -> impl Iterator<Item = Address> {
        let Status { size, ino, mtime, ctime, .. } = *status;
        self.by_inode.find(size, identity(ino, mtime, ctime)).take(TRIES).map(Address::of_number)
    }

    /// Files of this size that may have this hash.
    pub(super) fn of_hash(&self, size: u64, hash: &[u8; 32]) -> impl Iterator<Item = Address> {
        self.by_content.find(size, digest::prefix(hash)).take(TRIES).map(Address::of_number)
    }

    /// Whether a file of this size has a hash.
    pub(super) fn has_size(&self, size: u64) -> bool {
        self.by_content.has_size(size)
    }

    /// All files of this size that have a hash.
    pub(super) fn of_size(&self, size: u64) -> impl Iterator<Item = Address> {
        self.by_content.of_size(size).map(Address::of_number)
    }
}

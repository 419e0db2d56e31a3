//! Finds the content of a file in files of the base that have other paths: it was renamed, moved or copied.
//!
//! A record with the same hash has the same content. A record of the same inode, or of a large file of the same size,
//! may have most of it: then the addresses of both files decide. The index is made when the first file needs it. It
//! takes 16 bytes for each file of the base, 32 for a large one, and is bounded: then the largest files are found.

use crate::snapshot::lookup::{Gathering, Lookup};
use crate::snapshot::manifest::{Entry, FileBody, Item, Meta, Reader, Time};
use crate::util::digest;
use crate::util::path::join;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// How many files are indexed by content, and how many by inode: 32 MiB each.
const MOST: usize = 2 << 20;
/// How many files are examined for one.
const TRIES: usize = 8;
/// From this size on, in bytes, a file is compared with files of its inode and of its size.
const LARGE: u64 = 256 << 10;

/// A file of the base.
pub(super) struct Candidate {
    pub(super) path: Vec<u8>,
    pub(super) entry: Entry,
}

/// The files of the base.
pub(super) struct Elsewhere<'b> {
    base: &'b Reader,
    by_content: Lookup,
    by_inode: Lookup,
}

impl<'b> Elsewhere<'b> {
    /// Reads the manifest of the base.
    pub(super) fn of(base: &'b Reader) -> Elsewhere<'b> {
        let (mut by_content, mut by_inode) = (Gathering::new(MOST), Gathering::new(MOST));
        let mut items = base.items();
        while let Some(item) = items.next() {
            // The steps meet damaged blocks as well, and report them.
            let Ok(Item::Entry(entry)) = item else { continue };
            let Some(file) = entry.file().filter(|file| file.size > 0) else { continue };
            let Some(place) = items.address().number() else { continue };
            by_content.add(file.size, file.hash.as_ref().map_or(0, digest::prefix), place);
            if file.size >= LARGE {
                by_inode.add(0, inode(&entry.meta), place);
            }
        }
        Elsewhere { base, by_content: by_content.end(), by_inode: by_inode.end() }
    }

    /// The path of a file that has all of the content.
    pub(super) fn equal(&self, file: &FileBody) -> Option<Vec<u8>> {
        let hash = file.hash.filter(|_| !file.changed)?;
        let found = self.by_content.find(file.size, digest::prefix(&hash)).take(TRIES);
        found.filter_map(|place| self.candidate(place)).find(|found| found.has(file)).map(|found| found.path)
    }

    /// Files that may have some of the content of a large file.
    pub(super) fn similar(&self, entry: &Entry) -> Vec<Candidate> {
        let Some(file) = entry.file().filter(|file| file.size >= LARGE) else { return Vec::new() };
        let same_inode = self.by_inode.find(0, inode(&entry.meta)).take(TRIES);
        let is_same_inode = |found: &Candidate| key(&found.entry.meta) == key(&entry.meta);
        let mut found: Vec<Candidate> =
            same_inode.filter_map(|place| self.candidate(place)).filter(is_same_inode).collect();
        if found.is_empty() {
            found.extend(self.by_content.of_size(file.size).take(TRIES).filter_map(|place| self.candidate(place)));
        }
        found
    }

    fn candidate(&self, place: u64) -> Option<Candidate> {
        let (directory, entry) = self.base.entry_at(crate::snapshot::manifest::Address::of_number(place)).ok()??;
        Some(Candidate { path: join(&directory, &entry.name), entry })
    }
}

impl Candidate {
    fn has(&self, file: &FileBody) -> bool {
        let known = |file: &FileBody| (file.size, file.hash, file.holes);
        self.entry.file().is_some_and(|own| !own.changed && known(own) == known(file))
    }
}

/// An inode that keeps this key while its names, content and metadata change.
fn key(meta: &Meta) -> (u64, Option<Time>) {
    (meta.ino, meta.btime)
}

fn inode(meta: &Meta) -> u64 {
    let mut hasher = DefaultHasher::new();
    key(meta).hash(&mut hasher);
    hasher.finish()
}

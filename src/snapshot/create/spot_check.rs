//! Compares some entries that did not change, as far as the filesystem shows, with their records. If one differs,
//! something is wrong with that, and the run looks at everything.

use super::narrowing::Narrowing;
use super::watch::Watch;
use crate::error::Result;
use crate::fs::status::Status;
use crate::snapshot::manifest::{Entry, Reader};
use crate::util::path::join;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;

/// How many places of the manifest are looked at. Entries of one place lie side by side on the disk too.
const PLACES: usize = 16;
/// How many entries at each place.
const EACH: usize = 64;

/// The path of an entry that differs from its record in the last snapshot although it did not change.
pub(super) fn disagreement(reader: &Reader, narrowing: &Narrowing, watch: &Watch) -> Result<Option<Vec<u8>>> {
    let blocks = reader.blocks();
    let random = RandomState::new();
    let places: BTreeSet<usize> = match blocks {
        0..=PLACES => (0..blocks).collect(),
        _ => (0..PLACES).map(|number| (random.hash_one(number) % blocks as u64) as usize).collect(),
    };
    for place in places {
        let (directory, name) = reader.first_of_block(place);
        let Some(mut cursor) = reader.entries_from(directory, name)? else { continue };
        let meta = &cursor.directory().meta;
        let Some((dev, known)) = narrowing.known_by_number(meta.dev) else { continue };
        // The entries of a changed directory may be gone.
        if known.changes.has(meta.ino) {
            continue;
        }
        let (inode, opened) = ((dev, meta.ino), watch.open(directory).ok());
        let Some(fd) = opened.filter(|fd| Status::of(fd).is_ok_and(|now| (now.dev, now.ino) == inode)) else {
            continue;
        };
        for _ in 0..EACH {
            let Some(entry) = cursor.advance()? else { break };
            let is_expected = known.changes.has(entry.meta.ino) || narrowing.is_unsettled(directory, &entry.name);
            if !is_expected && !is_same(&fd, dev, &entry, watch) {
                return Ok(Some(join(directory, &entry.name)));
            }
        }
    }
    Ok(None)
}

fn is_same(fd: &OwnedFd, dev: u64, entry: &Entry, watch: &Watch) -> bool {
    let meta = &entry.meta;
    match Status::at(fd, &entry.name) {
        Ok(now) => {
            let size = entry.file().map_or(now.size, |file| file.size);
            let is_other_device = now.dev != dev;
            is_other_device
                || now.ctime >= watch.at()
                || (now.ino, now.mode, now.size, now.mtime, now.ctime)
                    == (meta.ino, meta.mode, size, meta.mtime, meta.ctime)
        }
        // It went after the transaction: then its directory changed too.
        Err(Errno::NOENT) => Status::of(fd).is_ok_and(|directory| directory.ctime >= watch.at()),
        Err(_) => true,
    }
}

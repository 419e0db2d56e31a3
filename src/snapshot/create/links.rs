//! Hard links: the names of one inode in the source become names of one inode in the snapshot.
//!
//! The first name that is brought in is also linked into a directory of the staging area, under the inode's number. Others
//! are linked from there; the kernel decides who was first, and no path has to be kept. What is kept, until the last
//! name has come, is what their records need. `once` brings the entries in.

use crate::mutex::lock;
use crate::snapshot::manifest::Entry;
use rustix::fs::AtFlags;
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

/// The inodes with several names.
pub(super) struct Links {
    dir: OwnedFd,
    known: Mutex<HashMap<(u64, u64), Known>>,
}

struct Known {
    entry: Entry,
    /// Names that have not come yet.
    missing: u64,
}

impl Links {
    /// Keeps the inodes in the directory `dir`, which is on the snapshot's filesystem and otherwise empty.
    pub(super) fn new(dir: OwnedFd) -> Self {
        Links { dir, known: Mutex::default() }
    }

    /// Makes `name` in `dir` a further name of an inode of the source, if that has been brought in: its record then.
    pub(super) fn join(&self, inode: (u64, u64), dir: impl AsFd, name: &[u8]) -> Result<Option<Entry>> {
        let mut known = lock(&self.known);
        let Some(link) = known.get_mut(&inode) else { return Ok(None) };
        match rustix::fs::linkat(&self.dir, key(inode).as_str(), dir, name, AtFlags::empty()) {
            Ok(()) => {}
            // It has as many names as the filesystem allows: this one becomes a file of its own.
            Err(Errno::MLINK) => return Ok(None),
            Err(error) => return Err(error),
        }
        let entry = Entry { name: name.to_vec(), ..link.entry.clone() };
        link.missing = link.missing.saturating_sub(1);
        if link.missing == 0 {
            known.remove(&inode);
        }
        Ok(Some(entry))
    }

    /// Offers the file just made as `name` in `dir` to the names that will follow. `false`: another thread was first.
    pub(super) fn offer(&self, inode: (u64, u64), dir: impl AsFd, name: &[u8], entry: &Entry) -> Result<bool> {
        let mut known = lock(&self.known);
        if known.contains_key(&inode) {
            return Ok(false);
        }
        match rustix::fs::linkat(dir, name, &self.dir, key(inode).as_str(), AtFlags::empty()) {
            Ok(()) => {
                known.insert(inode, Known { entry: entry.clone(), missing: entry.meta.nlink.saturating_sub(1) });
                Ok(true)
            }
            // All its names had come already, or more can't be had, or only the manifest has it: it stands alone.
            Err(Errno::EXIST | Errno::MLINK | Errno::NOENT) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

fn key((dev, ino): (u64, u64)) -> String {
    format!("{dev:x}-{ino:x}")
}

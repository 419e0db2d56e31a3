//! Hard links: the names of one inode in the source become names of one inode in the snapshot.
//!
//! The first name that is brought in is also linked into a directory of the staging area, under the inode's number. Others
//! are linked from there; the kernel decides who was first, and no path has to be kept. What is kept, until the last
//! name has come, is what their records need.

use super::seen::Seen;
use super::staged::Staged;
use super::stats::Stats;
use super::tree::{Place, Tree};
use crate::error::Result as EngineResult;
use crate::snapshot::manifest::Entry;
use crate::walk::Directory;
use rustix::fs::AtFlags;
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

/// An entry that has been brought in, and what that cost.
pub(super) struct Brought {
    pub(super) entry: Entry,
    pub(super) cost: Stats,
}

impl Tree<'_> {
    /// Brings an entry in with `make`, unless it is a further name of an inode that has been brought in already.
    pub(super) fn under_one_inode(
        &self,
        directory: &Directory<Place>,
        seen: &Seen<'_>,
        staged: &Staged,
        mut make: impl FnMut() -> EngineResult<Option<Brought>>,
    ) -> EngineResult<Option<Brought>> {
        if seen.status.nlink < 2 {
            return make();
        }
        let above = directory.place.destination(&directory.path)?;
        let inode = (seen.status.dev, seen.status.ino);
        let failed = |errno| self.cannot_make(&directory.join(seen.name), errno);
        let join = || staged.links.join(inode, above, seen.name).map_err(failed);
        let joined = |entry| Brought { entry, cost: Stats::default() };
        if let Some(entry) = join()? {
            return Ok(Some(joined(entry)));
        }
        let Some(brought) = make()? else { return Ok(None) };
        if staged.links.offer(inode, above, seen.name, &brought.entry).map_err(failed)? {
            return Ok(Some(brought));
        }
        // Another thread brought it in at the same time and was first.
        rustix::fs::unlinkat(above, seen.name, AtFlags::empty()).map_err(failed)?;
        match join()? {
            Some(entry) => Ok(Some(joined(entry))),
            None => make(),
        }
    }
}

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
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
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
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
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

//! Removes entries that the new snapshot does not have from a staging tree that began as a snapshot of the last tree.
//!
//! Entries without a record in the new manifest are removed: they were deleted, are excluded now, or could not be
//! added. The merge of the two manifests finds them, behind the walk. An entry of another type may have the name by
//! then, and stays. The directory gets its modification time back. It does not matter whether the walk has left the
//! directory by then: both set the same time.

use super::failure::cannot_make;
use crate::error::Result;
use crate::fs::openat;
use crate::monitor::Monitor;
use crate::snapshot::manifest::{Directory, Item, Time};
use crate::tree::deletion;
use crate::tree::walk::absolute;
use crate::util::path::{is_below, split};
use rustix::fs::{AtFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// Removes entries from a staging tree.
pub(crate) struct Removal<'a> {
    tree: OwnedFd,
    monitor: &'a dyn Monitor,
    /// The newest directory of the new manifest.
    newest: Vec<u8>,
    /// The newest directory and those above it, topmost first.
    chain: Vec<Above>,
    /// The directory of the last entry that was removed.
    open: Option<Open>,
    /// A directory that is gone with everything below it.
    gone: Option<Vec<u8>>,
}

struct Above {
    /// The length of its path, which is the beginning of the newest directory's path.
    length: usize,
    /// `None` for the top of a snapshot, which is not a copy of anything.
    mtime: Option<Time>,
}

struct Open {
    path: Vec<u8>,
    /// `None` if the directory is not there.
    fd: Option<OwnedFd>,
    mtime: Option<Time>,
}

impl<'a> Removal<'a> {
    /// A removal from the tree with the root directory `tree`.
    pub(crate) fn new(tree: OwnedFd, monitor: &'a dyn Monitor) -> Self {
        Removal { tree, monitor, newest: Vec::new(), chain: Vec::new(), open: None, gone: None }
    }

    /// Notes that the new manifest has this directory. Later removals come behind it in the manifest's order.
    pub(crate) fn passed(&mut self, directory: &Directory) {
        let path = &directory.path;
        let common = self.newest.iter().zip(path).take_while(|(a, b)| a == b).count();
        let is_above = |length: usize| length <= common && is_below(path, &self.newest[..length]);
        while self.chain.last().is_some_and(|above| !is_above(above.length)) {
            self.chain.pop();
        }
        self.newest.truncate(common);
        self.newest.extend_from_slice(&path[common..]);
        let is_copy = !(path.is_empty() && directory.scaffold);
        self.chain.push(Above { length: path.len(), mtime: is_copy.then_some(directory.meta.mtime) });
    }

    /// Removes the entry that the record `old` of the last snapshot describes, at `path`.
    pub(crate) fn remove(&mut self, old: &Item, path: &[u8]) -> Result<()> {
        if self.gone.as_ref().is_some_and(|gone| is_below(path, gone)) {
            return Ok(());
        }
        let (above, name) = split(path);
        if matches!(old, Item::Directory(_)) {
            self.gone = Some(path.to_vec());
        }
        if self.open.as_ref().is_none_or(|open| open.path != above) {
            self.settle()?;
            let fd = match openat::open_dir(self.tree.as_fd(), above) {
                Ok(fd) => Some(fd),
                // The entry became something else, or was removed with a directory above it.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => None,
                Err(errno) => return Err(cannot_make(above, errno)),
            };
            let found = self.chain.binary_search_by_key(&above.len(), |place| place.length);
            let is_there = self.newest.get(..above.len()) == Some(above);
            let mtime = found.ok().filter(|_| is_there).and_then(|at| self.chain[at].mtime);
            self.open = Some(Open { path: above.to_vec(), fd, mtime });
        }
        let Some(Open { fd: Some(fd), .. }) = &self.open else { return Ok(()) };
        match old {
            Item::Entry(_) => match rustix::fs::unlinkat(fd, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => Ok(()),
                Err(errno) => Err(cannot_make(path, errno)),
            },
            Item::Directory(_) => deletion::directory(fd.as_fd(), name, &absolute(path), self.monitor).map(|_| ()),
        }
    }

    /// Restores the time of the directory that the last entry was removed from.
    pub(crate) fn settle(&mut self) -> Result<()> {
        let Some(Open { path, fd: Some(fd), mtime: Some(mtime) }) = self.open.take() else { return Ok(()) };
        let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let times = Timestamps { last_access: omit, last_modification: mtime.timespec() };
        rustix::fs::futimens(&fd, &times).map_err(|errno| cannot_make(&path, errno))
    }
}

//! The snapshot's part of a directory of the walk: its copy in the staging tree, and its version in the last snapshot.
//!
//! Where the staging tree began as a snapshot of the last one, most directories are right as they are. Then the copy is
//! opened only when something in it has to change, and becomes what a new one is: private until it is left.

use super::context::cannot_make;
use super::record;
use super::staged::Staged;
use super::stats::Stats;
use crate::error::Result;
use crate::fs::metadata::{self, Attributes, FileAttr, Refused, Xattr};
use crate::fs::openat;
use crate::fs::reopener::{Inode, Reopener};
use crate::fs::status::Status;
use crate::monitor::Monitor;
use crate::tree::walk::Directory;
use crate::util::mutex::lock;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, OnceLock};

/// New directories and files belong to nobody else until they are published.
pub(super) const PRIVATE: Mode = Mode::RWXU;

/// The snapshot's part of a directory.
#[derive(Default)]
pub(super) struct Place {
    /// Its copy, once it is open for changes; never in a dry run.
    copy: OnceLock<Copy>,
    /// Held by the thread that opens the copy.
    opening: Mutex<()>,
    /// Its version in the last snapshot, once somebody has asked for it.
    previous: OnceLock<Option<OwnedFd>>,
    /// The copy, if it was closed to be opened again: its inode.
    closed: Option<(Inode, Last)>,
}

/// A directory of the staging tree that is open for changes.
struct Copy {
    fd: OwnedFd,
    last: Last,
}

/// What a directory gets last, because what is made in it would inherit it.
pub(super) struct Last {
    /// ACLs, properties of Btrfs.
    pub(super) xattrs: Vec<Xattr>,
    /// Flags and project id.
    pub(super) fileattr: FileAttr,
}

impl Place {
    /// The part of a directory whose copy is as it should be.
    pub(super) fn untouched() -> Place {
        Place::default()
    }

    /// The part of a directory whose copy is open and has yet to get its `last`.
    pub(super) fn open(fd: OwnedFd, last: Last) -> Place {
        let place = Place::default();
        let _ = place.copy.set(Copy { fd, last });
        place
    }

    /// Closes what is open, until [`Place::reopen`].
    pub(super) fn close(&mut self) {
        self.previous.take();
        if let Some(Copy { fd, last }) = self.copy.take() {
            match Status::of(&fd) {
                Ok(status) => self.closed = Some(((status.dev, status.ino), last)),
                // It stays open.
                Err(_) => {
                    let _ = self.copy.set(Copy { fd, last });
                }
            }
        }
    }

    /// Opens the copy again, if it was open; its path in the staging tree is `path`.
    pub(super) fn reopen(&mut self, reopener: &Reopener, path: &[u8]) -> rustix::io::Result<()> {
        if let Some((inode, last)) = self.closed.take() {
            let _ = self.copy.set(Copy { fd: reopener.open(path, inode)?, last });
        }
        Ok(())
    }

    /// The copy, if it has been opened for changes, and what it has to get last.
    pub(super) fn changed(&self) -> Option<(BorrowedFd<'_>, &Last)> {
        self.copy.get().map(|copy| (copy.fd.as_fd(), &copy.last))
    }

    /// The directory's version in the last snapshot, whose tree is `tree`; `None` where it has none.
    pub(super) fn previous(&self, tree: BorrowedFd<'_>, path: &[u8]) -> Option<BorrowedFd<'_>> {
        self.previous.get_or_init(|| openat::open_dir(tree, path).ok()).as_ref().map(AsFd::as_fd)
    }
}

/// The copy of a directory, opened for changes.
pub(super) fn copy<'d>(
    directory: &'d Directory<Place>,
    staged: &Staged,
    monitor: &dyn Monitor,
    part: &mut Stats,
) -> Result<BorrowedFd<'d>> {
    let place = &directory.place;
    if let Some(copy) = place.copy.get() {
        return Ok(copy.fd.as_fd());
    }
    let _opening = lock(&place.opening);
    if place.copy.get().is_none() {
        let failed = |errno| cannot_make(&directory.path, errno);
        let fd = openat::open_dir(staged.tree.as_fd(), &directory.path).map_err(failed)?;
        let mut xattrs = read_xattrs(directory, monitor, part);
        let last = Last { xattrs: take_handed_down(&mut xattrs), fileattr: FileAttr::of(&directory.fd) };
        reopen(staged, &fd, &Attributes::of(&directory.status, &xattrs)).map_err(failed)?;
        let _ = place.copy.set(Copy { fd, last });
    }
    place.copy.get().map(|copy| copy.fd.as_fd()).ok_or_else(|| cannot_make(&directory.path, Errno::BADF))
}

/// Makes a directory of the last snapshot's tree what a new one is: private, with nothing that its entries could inherit.
pub(super) fn reopen(staged: &Staged, fd: &OwnedFd, attributes: &Attributes<'_>) -> rustix::io::Result<Refused> {
    staged.creator.make_private(fd)?;
    metadata::remove_other_xattrs(fd, attributes.xattrs)?.removed()?;
    staged.creator.begin_directory(fd, attributes)
}

/// Makes a directory called `name` in the open directory `above`, and opens it.
pub(super) fn make(above: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    rustix::fs::mkdirat(above, name, PRIVATE)?;
    openat::open_subdir(above, name)
}

/// The extended attributes of a directory of the source, as far as they can be read; the others are reported.
pub(super) fn read_xattrs<P>(directory: &Directory<P>, monitor: &dyn Monitor, part: &mut Stats) -> Vec<Xattr> {
    let (xattrs, failure) = metadata::readable_xattrs(&directory.fd);
    if let Some(errno) = failure {
        monitor.problem(&record::unread_xattrs(crate::tree::walk::absolute(&directory.path), errno));
        part.errors += 1;
    }
    xattrs
}

/// Takes out of a directory's attributes what it would hand down.
pub(super) fn take_handed_down(xattrs: &mut Vec<Xattr>) -> Vec<Xattr> {
    xattrs.extract_if(.., |(name, _)| metadata::is_inherited(name)).collect()
}

//! The snapshot's part of a directory of the walk: its copy in the staging tree, and its version in the last snapshot.
//!
//! If the staging tree began as a snapshot of the last tree, most directories need no change. A copy is opened only
//! when something in it must change, and is then treated like a new directory: it is private until the walk leaves it.

use super::added_entry;
use super::failure::cannot_make;
use super::scope::Scope;
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
pub(super) struct StagedDirectory {
    /// Its copy, once it is open for changes; never in a dry run.
    copy: OnceLock<Copy>,
    /// Held by the thread that opens the copy.
    opening: Mutex<()>,
    /// Its version in the last snapshot, once it was needed.
    previous: OnceLock<Option<OwnedFd>>,
    /// The copy's inode and last metadata, if the copy was closed and will be opened again.
    closed: Option<(Inode, Last)>,
    /// The part of the source's directory that is looked at.
    scope: Scope,
}

/// A directory of the staging tree that is open for changes.
struct Copy {
    fd: OwnedFd,
    last: Last,
}

/// Metadata that a directory gets last, because new entries would inherit it.
pub(super) struct Last {
    /// ACLs and properties of Btrfs.
    pub(super) xattrs: Vec<Xattr>,
    /// Flags and project id.
    pub(super) fileattr: FileAttr,
}

impl StagedDirectory {
    /// The part of a directory with a copy that needs no change.
    pub(super) fn untouched() -> StagedDirectory {
        StagedDirectory::default()
    }

    /// The part of a directory with an open copy, which gets `last` at its end.
    pub(super) fn open(fd: OwnedFd, last: Last) -> StagedDirectory {
        let place = StagedDirectory::default();
        let _ = place.copy.set(Copy { fd, last });
        place
    }

    /// This part, with the scope of the source's directory.
    pub(super) fn with(self, scope: Scope) -> StagedDirectory {
        StagedDirectory { scope, ..self }
    }

    /// The part of the source's directory that is looked at.
    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Closes the open descriptors until [`StagedDirectory::reopen`].
    pub(super) fn close(&mut self) {
        self.previous.take();
        if let Some(Copy { fd, last }) = self.copy.take() {
            match Status::of(&fd) {
                Ok(status) => self.closed = Some(((status.dev, status.ino), last)),
                // The copy stays open.
                Err(_) => {
                    let _ = self.copy.set(Copy { fd, last });
                }
            }
        }
    }

    /// Opens the copy again, if it was open. `path` is its path in the staging tree.
    pub(super) fn reopen(&mut self, reopener: &Reopener, path: &[u8]) -> rustix::io::Result<()> {
        if let Some((inode, last)) = self.closed.take() {
            let _ = self.copy.set(Copy { fd: reopener.open(path, inode)?, last });
        }
        Ok(())
    }

    /// The copy, if it has been opened for changes, and the metadata that it gets last.
    pub(super) fn changed(&self) -> Option<(BorrowedFd<'_>, &Last)> {
        self.copy.get().map(|copy| (copy.fd.as_fd(), &copy.last))
    }

    /// The directory's version in the last snapshot, or `None` if that snapshot lacks it. `tree` is that snapshot's
    /// tree.
    pub(super) fn previous(&self, tree: BorrowedFd<'_>, path: &[u8]) -> Option<BorrowedFd<'_>> {
        self.previous.get_or_init(|| openat::open_dir(tree, path).ok()).as_ref().map(AsFd::as_fd)
    }
}

/// The copy of a directory, opened for changes.
pub(super) fn copy<'d>(
    directory: &'d Directory<StagedDirectory>,
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
        let last = Last { xattrs: take_inherited(&mut xattrs), fileattr: FileAttr::of(&directory.fd) };
        reopen(staged, &fd, &Attributes::of(&directory.status, &xattrs)).map_err(failed)?;
        let _ = place.copy.set(Copy { fd, last });
    }
    place.copy.get().map(|copy| copy.fd.as_fd()).ok_or_else(|| cannot_make(&directory.path, Errno::BADF))
}

/// Prepares a directory of the last snapshot's tree like a new one: private, and without anything that its entries
/// could inherit.
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

/// The extended attributes of a source directory, as far as they can be read; the others are reported.
pub(super) fn read_xattrs<P>(directory: &Directory<P>, monitor: &dyn Monitor, part: &mut Stats) -> Vec<Xattr> {
    let (xattrs, failure) = metadata::readable_xattrs(&directory.fd);
    if let Some(errno) = failure {
        monitor.problem(&added_entry::unread_xattrs(crate::tree::walk::absolute(&directory.path), errno));
        part.errors += 1;
    }
    xattrs
}

/// Removes from `xattrs` the attributes of a directory that its entries would inherit, and returns them.
pub(super) fn take_inherited(xattrs: &mut Vec<Xattr>) -> Vec<Xattr> {
    xattrs.extract_if(.., |(name, _)| metadata::is_inherited(name)).collect()
}

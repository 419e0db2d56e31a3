//! The tree that is being made: its directories, from the root to the one that gets entries now. A directory gets its
//! owner, mode and times when the stream has left it, because new entries would change or inherit them.

use crate::content::copy::Strategy;
use crate::error::{Error, Result};
use crate::fs::filesystem::Filesystem;
use crate::fs::metadata::{self, Attributes, Creator, FileAttr, PROJECT_INHERIT, Refused, SEALS, Xattr};
use crate::fs::openat;
use crate::fs::reopener::Reopener;
use crate::fs::status::{Time, timestamps};
use crate::snapshot::manifest::{Directory, Meta};
use crate::snapshot::repository::Staging;
use crate::snapshot::source_path::{is_within, split};
use crate::tree::walk::absolute;
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// New directories belong to nobody else until they are published.
const PRIVATE: Mode = Mode::RWXU;

/// The tree of a snapshot that is being received.
pub(super) struct Tree {
    pub(super) root: OwnedFd,
    pub(super) creator: Creator,
    pub(super) strategy: Strategy,
    pub(super) filesystem: Filesystem,
    /// It began as a snapshot of the base's tree.
    pub(super) is_based: bool,
    takes_projects: bool,
    /// The time of the top.
    top: Time,
    reopener: Reopener,
    /// The directory that gets entries now, and those above it.
    levels: Vec<Level>,
    /// Directories that the stream has left, until all their entries were made.
    left: Vec<Level>,
}

/// A directory of the tree.
struct Level {
    record: Directory,
    /// Open for changes.
    fd: Option<Arc<OwnedFd>>,
}

impl Tree {
    pub(super) fn new(staging: &Staging, filesystem: Filesystem, top: Time) -> Result<Tree> {
        let failed = |errno: Errno| Error::failed("prepare the staging area").because(errno);
        let root = staging.tree.try_clone().map_err(|cause| Error::failed("open the staging area").because(cause))?;
        let creator = Creator::current();
        creator.make_private(&root).map_err(failed)?;
        Ok(Tree {
            takes_projects: creator.is_root() && !metadata::has_project(&root),
            reopener: Reopener::new(&root).map_err(failed)?,
            creator,
            strategy: Strategy::new(),
            filesystem,
            is_based: staging.is_based,
            top,
            root,
            levels: Vec::new(),
            left: Vec::new(),
        })
    }

    /// The path of the directory that gets entries now.
    pub(super) fn path(&self) -> &[u8] {
        self.levels.last().map_or(b"", |level| &level.record.path)
    }

    /// The flags and project id that an entry of the tree may have.
    pub(super) fn takes(&self, meta: &Meta) -> FileAttr {
        let FileAttr { flags, project } = meta.fileattr().without(SEALS);
        match self.takes_projects {
            true => FileAttr { flags, project },
            false => FileAttr { flags, project: None }.without(PROJECT_INHERIT),
        }
    }

    /// The attributes of an entry.
    pub(super) fn attributes<'x>(&self, meta: &Meta, xattrs: &'x [Xattr]) -> Attributes<'x> {
        let Meta { mode, uid, gid, mtime, .. } = *meta;
        Attributes { uid, gid, mode, atime: mtime, mtime, xattrs, fileattr: self.takes(meta) }
    }

    /// Leaves directories until `path` can be entered.
    pub(super) fn leave_for(&mut self, path: &[u8]) {
        while let Some(level) = self.levels.pop_if(|level| !is_within(path, &level.record.path)) {
            if level.fd.is_some() {
                self.left.push(level);
            }
        }
    }

    /// Enters a directory that was made before the transfer was cut.
    pub(super) fn enter_again(&mut self, record: Directory) {
        while self.levels.pop_if(|level| !is_within(&record.path, &level.record.path)).is_some() {}
        self.levels.push(Level { record, fd: None });
    }

    /// Opens the directories that were entered when the transfer was cut: they did not get their last metadata.
    pub(super) fn reopen(&mut self) -> Result<()> {
        let paths: Vec<Vec<u8>> = self.levels.iter().map(|level| level.record.path.clone()).collect();
        paths.iter().try_for_each(|path| self.open_for_change(path).map(|_| ()))
    }

    /// Enters a directory that the tree has as it should be.
    pub(super) fn enter_same(&mut self, record: Directory) {
        self.leave_for(&record.path);
        self.levels.push(Level { record, fd: None });
    }

    /// Makes a directory, or opens the base's one, and enters it. Its attributes are in the record and in `xattrs`,
    /// without those that entries would inherit.
    pub(super) fn enter(&mut self, mut record: Directory, xattrs: &[Xattr], is_there: bool) -> Result<()> {
        self.leave_for(&record.path);
        let failed = |errno| cannot_make(&record.path, errno);
        let fd = if record.path.is_empty() {
            self.root.try_clone().map_err(|cause| Error::failed("open the staging area").because(cause))?
        } else {
            let (above, name) = split(&record.path);
            let above = self.open_for_change(above)?;
            if is_there {
                openat::open_subdir(&above, name).map_err(failed)?
            } else {
                // What is there was made before the transfer was cut, behind the noted position.
                self.take_out(above.as_fd(), name, &record.path)?;
                rustix::fs::mkdirat(&above, name, PRIVATE).map_err(failed)?;
                openat::open_subdir(&above, name).map_err(failed)?
            }
        };
        let attributes = self.attributes(&record.meta, xattrs);
        if is_there {
            self.creator.make_private(&fd).map_err(failed)?;
            metadata::remove_other_xattrs(&fd, xattrs).and_then(metadata::Others::removed).map_err(failed)?;
        }
        let refused = self.creator.begin_directory(&fd, &attributes).map_err(failed)?;
        keep(&mut record.meta, refused);
        self.levels.push(Level { record, fd: Some(Arc::new(fd)) });
        Ok(())
    }

    /// The record of the directory that was entered last, with what the tree refused.
    pub(super) fn record(&self) -> Option<&Directory> {
        self.levels.last().map(|level| &level.record)
    }

    /// The directory that gets entries now, open for changes.
    pub(super) fn open(&mut self) -> Result<Arc<OwnedFd>> {
        let path = self.path().to_vec();
        self.open_for_change(&path)
    }

    /// Opens the directory at `path`, the current one or one above it, for changes.
    fn open_for_change(&mut self, path: &[u8]) -> Result<Arc<OwnedFd>> {
        let failed = |errno| cannot_make(path, errno);
        let Some(level) = self.levels.iter_mut().rev().find(|level| level.record.path == path) else {
            // Only the top may have no record.
            return if path.is_empty() {
                self.root.try_clone().map(Arc::new).map_err(|cause| Error::failed("open").because(cause))
            } else {
                Err(crate::snapshot::stream::damage("an entry comes before its directory"))
            };
        };
        if let Some(fd) = &level.fd {
            return Ok(Arc::clone(fd));
        }
        let fd = self.reopener.open_any(path).map_err(failed)?;
        // What its entries would inherit is in its record.
        self.creator.make_private(&fd).map_err(failed)?;
        Ok(Arc::clone(level.fd.insert(Arc::new(fd))))
    }

    /// Opens a directory of the tree that may be anywhere.
    pub(super) fn any_directory(&self, path: &[u8]) -> rustix::io::Result<OwnedFd> {
        self.reopener.open_any(path)
    }

    /// Gives the directories that were left their metadata. All their entries exist.
    pub(super) fn settle(&mut self) -> Result<()> {
        for Level { record, fd } in std::mem::take(&mut self.left) {
            let Some(fd) = fd else { continue };
            let Directory { path, scaffold, meta } = &record;
            let ended = if path.is_empty() && *scaffold {
                end_top(fd.as_fd(), self.top)
            } else {
                let inherited: Vec<Xattr> = meta
                    .kept_xattrs
                    .iter()
                    .filter(|(name, _)| metadata::is_inherited(name))
                    .map(|(name, value)| (name.to_vec(), value.to_vec()))
                    .collect();
                self.creator.end_directory(&fd, &self.attributes(meta, &inherited))
            };
            ended.map_err(|errno| cannot_make(path, errno))?;
        }
        Ok(())
    }

    /// Leaves all directories.
    pub(super) fn finish(&mut self) -> Result<()> {
        while let Some(level) = self.levels.pop() {
            if level.fd.is_some() {
                self.left.push(level);
            }
        }
        self.settle()
    }

    /// Removes whatever has this name in an open directory.
    pub(super) fn take_out(&self, dir: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> Result<()> {
        match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR) => {
                crate::tree::deletion::directory(dir, name, &absolute(path), &crate::monitor::Silent).map(|_| ())
            }
            Err(errno) => Err(cannot_make(path, errno)),
        }
    }
}

/// Everyone who may enter the repository may read the top, which is no copy of a directory. Its time came with the snapshot.
fn end_top(top: BorrowedFd<'_>, time: Time) -> rustix::io::Result<()> {
    rustix::fs::fchmod(top, Mode::from_bits_truncate(0o755))?;
    rustix::fs::futimens(top, &timestamps(time, time))
}

/// Adds to a record the metadata that the tree refused.
pub(super) fn keep(meta: &mut Meta, refused: Refused) {
    meta.kept_here |= refused.ownership;
    meta.kept_xattrs.extend(refused.xattrs.into_iter().map(|(name, value)| (name.into(), value.into())));
}

/// The error of a call that makes something in the tree.
pub(super) fn cannot_make(path: &[u8], errno: Errno) -> Error {
    let error = Error::io("write to the snapshot", absolute(path), errno);
    match errno {
        Errno::NOSPC | Errno::DQUOT => error.hint("free some space, and send the snapshot again"),
        _ => error,
    }
}

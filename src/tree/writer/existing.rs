//! Existing entries that get other metadata: only an inode that may have the new rights is opened for that.

use super::{Attempt, Inode, Rights, Slot, Target, TempFile};
use crate::fs::metadata::Creator;
use crate::fs::status::Status;
use rustix::fs::{FileType, Gid, Uid, fchown};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd as _, BorrowedFd};

impl<T: Target> Slot<'_, '_, T> {
    /// Opens the existing entry to change its metadata to these rights, if it is the expected inode.
    ///
    /// # Errors
    /// `STALE` if it is another inode, or one that must not get these rights.
    pub(crate) fn open_existing(&self, rights: &Rights, is_expected: impl Fn(&Status) -> bool) -> Result<Inode> {
        let dir = self.dir().fd.as_ref().ok_or(Errno::BADF)?;
        let is_file = rights.file_type() == FileType::RegularFile;
        Inode::open(dir.as_fd(), self.name, is_file, |status| is_expected(status) && self.may_get(rights, status))
    }

    /// Whether an existing inode with this status may get these rights.
    pub(crate) fn may_get(&self, rights: &Rights, status: &Status) -> bool {
        let creator = self.run.creator();
        let is_in_doubt = rights.is_foreign(status, creator) || rights.need_new_inode(status, creator);
        !is_in_doubt || !self.keeps_owners()
    }

    /// Whether the filesystem shows who owns an inode. Others show the same owner for all inodes, which proves nothing,
    /// and new inodes would be no better: FAT, or a server that maps all users to one.
    pub(crate) fn keeps_owners(&self) -> bool {
        let keeps = || -> Attempt<bool> {
            let kept = keeps_owners(self.above()?.as_fd(), self.run.temporary(), self.run.creator());
            // In doubt it does. Whatever the failure is, a replacement meets it again.
            Ok(kept.unwrap_or(true))
        };
        *self.dir().device.keeps_owners.get_or_init(|| keeps().unwrap_or(true))
    }
}

/// Finds out with a new file whether a filesystem stores the owners that this process sets.
pub(crate) fn keeps_owners(dir: BorrowedFd<'_>, prefix: &str, creator: &Creator) -> Result<bool> {
    let file = TempFile::make(dir, prefix, None)?;
    if !creator.is_root() {
        return Status::of(&file).map(|status| creator.is_owner(&status));
    }
    match fchown(&file, Some(Uid::from_raw(1)), Some(Gid::from_raw(1))) {
        Err(Errno::PERM | Errno::ACCESS | Errno::INVAL | Errno::OPNOTSUPP) => Ok(false),
        changed => changed.and_then(|()| Ok(Status::of(&file)?.uid == 1)),
    }
}

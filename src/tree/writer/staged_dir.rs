//! A new directory that has a temporary name while its first files are created, and then gets its own name.
//!
//! On XFS and Btrfs a file takes less work if it has its own name from the start than if it is created without a name
//! and linked. Inside such a directory nobody takes a half file for a complete one: a killed run leaves the directory
//! under its temporary name, and the next run removes it (`liveness`), if it has the mark of a run. So it contains only
//! regular files that can be deleted: flags which forbid that follow when it has its own name.
//!
//! Nobody takes a file in it for finished, so its files may have their final times before a sync if the directory gets
//! its own name after the sync ([`StagedDir::put_synced`]).

use super::temporary::under_temporary_name;
use super::{Attempt, Slot, Synced, Target, liveness};
use crate::fs::rename;
use crate::fs::status::Status;
use rustix::io::Result;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Such a directory. If this is dropped before the directory gets its own name, the directory and its files are
/// deleted.
#[derive(Debug)]
pub(crate) struct StagedDir {
    above: Arc<OwnedFd>,
    /// Empty: it has its own name.
    temporary: String,
    /// Device and inode. Somebody else may have given its name to another directory.
    inode: (u64, u64),
}

impl<T: Target> Slot<'_, '_, T> {
    /// Creates a directory for this entry under a temporary name. Also returns the directory, open. Only its owner may
    /// use it, and it inherits nothing.
    pub(crate) fn stage_dir(&self) -> Attempt<(StagedDir, OwnedFd)> {
        let above = Arc::clone(self.above()?);
        liveness::announce(above.as_fd());
        let make = |name: &str| self.dir().make_subdir(name.as_bytes(), self.run.creator());
        let fail = |errno| self.failure("make the directory", errno);
        let (temporary, made) = under_temporary_name(self.run.temporary(), make).map_err(fail)?;
        let status = liveness::mark(&made).and_then(|()| Status::of(&made)).map_err(fail)?;
        Ok((StagedDir { above, temporary, inode: (status.dev, status.ino) }, made))
    }
}

impl StagedDir {
    fn is(&self, status: &Status) -> bool {
        (status.dev, status.ino) == self.inode
    }

    /// Its temporary name.
    pub(crate) fn temporary_name(&self) -> &[u8] {
        self.temporary.as_bytes()
    }

    /// Gives the directory its own name.
    ///
    /// # Errors
    /// `EXIST`: an entry with this name was created meanwhile.
    pub(crate) fn put(&mut self, name: &[u8]) -> Result<()> {
        rename::without_replacing(&self.above, self.temporary.as_str(), &self.above, name)?;
        self.temporary.clear();
        Ok(())
    }

    /// [`StagedDir::put`] for a directory with files that were written: their data is on the disk now.
    ///
    /// # Errors
    /// See [`StagedDir::put`].
    pub(crate) fn put_synced(&mut self, name: &[u8], _: &Synced) -> Result<()> {
        self.put(name)
    }

    /// Moves its files to another directory, which somebody else created, without replacing anything. `moved` receives
    /// this directory, and the name and the result of each file.
    ///
    /// # Errors
    /// Errors of listing it. `STALE` if another directory has its name.
    pub(crate) fn move_files(
        &self,
        to: BorrowedFd<'_>,
        mut moved: impl FnMut(BorrowedFd<'_>, &[u8], Result<()>),
    ) -> Result<()> {
        let from = liveness::open_expected(self.above.as_fd(), self.temporary.as_str(), |status| self.is(status))?;
        for file in liveness::files(from.as_fd())? {
            let result = rename::without_replacing(&from, file.as_c_str(), to, file.as_c_str());
            moved(from.as_fd(), file.to_bytes(), result);
        }
        Ok(())
    }
}

impl Drop for StagedDir {
    fn drop(&mut self) {
        if !self.temporary.is_empty() {
            // If it cannot be removed, the next run clears it.
            let is_it = |status: &Status| self.is(status);
            let _ = liveness::remove_directory(self.above.as_fd(), self.temporary.as_str(), is_it);
        }
    }
}

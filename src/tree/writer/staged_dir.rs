//! A new directory that has a temporary name while its first files are created, and then gets its own name.
//!
//! On XFS and Btrfs a file takes less work if it has its own name from the start than if it is created without a name
//! and linked. Inside such a directory nobody takes a half file for a complete one: a killed run leaves the directory
//! under its temporary name, and the next run removes it (`liveness`). So it contains only regular files that can be
//! deleted: flags which forbid that follow when it has its own name.
//!
//! Nobody takes a file in it for finished, so its files may have their final times before a sync if the directory gets
//! its own name after the sync ([`StagedDir::put_synced`]).

use super::temporary::under_temporary_name;
use super::{Attempt, Slot, Synced, Target, liveness};
use crate::fs::{openat, rename};
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
}

impl<T: Target> Slot<'_, '_, T> {
    /// Creates a directory for this entry under a temporary name. Also returns the directory, open. Only its owner may
    /// use it, and it inherits nothing.
    pub(crate) fn stage_dir(&self) -> Attempt<(StagedDir, OwnedFd)> {
        let above = Arc::clone(self.above()?);
        liveness::announce(above.as_fd());
        let make = |name: &str| self.dir().make_subdir(name.as_bytes(), self.run.creator());
        let (temporary, made) = under_temporary_name(self.run.temporary(), make)
            .map_err(|errno| self.failure("make the directory", errno))?;
        Ok((StagedDir { above, temporary }, made))
    }
}

impl StagedDir {
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
    /// Errors of listing it.
    pub(crate) fn move_files(
        &self,
        to: BorrowedFd<'_>,
        mut moved: impl FnMut(BorrowedFd<'_>, &[u8], Result<()>),
    ) -> Result<()> {
        let from = openat::open_subdir(&self.above, self.temporary.as_str())?;
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
            let _ = liveness::remove_directory(self.above.as_fd(), self.temporary.as_str());
        }
    }
}

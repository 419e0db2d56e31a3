//! A new directory that has a temporary name while its first files are created, and then gets its own name.
//!
//! On XFS and Btrfs a file takes less work if it has its own name from the start than if it is created without a name
//! and linked. Inside such a directory nobody takes a half file for a complete one: a killed run leaves the directory
//! under its temporary name, and the next run removes it (`liveness`). So it contains only regular files, and only
//! files of a run that could be created again in a moment.

use super::temporary::under_temporary_name;
use super::{Attempt, Slot, Target, liveness};
use crate::fs::rename;
use rustix::io::Result;
use std::os::fd::{AsFd as _, OwnedFd};
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
    /// Gives the directory its own name.
    ///
    /// # Errors
    /// `EXIST`: an entry with this name was created meanwhile. After an error the directory and its files are deleted.
    pub(crate) fn put(mut self, name: &[u8]) -> Result<()> {
        rename::without_replacing(&self.above, self.temporary.as_str(), &self.above, name)?;
        self.temporary.clear();
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

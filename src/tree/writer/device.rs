//! The filesystems that a run writes to, and their syncs.

use crate::content::copy::{Copied, Engine, Strategy};
use crate::error::{Error, Result};
use crate::fs::filesystem::Kind;
use crate::fs::shutdown;
use crate::util::mutex::lock;
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

/// A filesystem that is written to: the ways of copying that work there, and a descriptor to sync it.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) strategy: Strategy,
    /// Its kind, if known.
    pub(crate) kind: Option<Kind>,
    /// Whether it treats names that differ only in case as the same, if this is known for the whole filesystem.
    pub(super) folds_case: OnceLock<bool>,
    /// Whether it stores the owners of inodes, once this was asked.
    pub(super) keeps_owners: OnceLock<bool>,
    any: Option<OwnedFd>,
    /// Held during a sync until its result is known: the kernel reports an error to only one call.
    syncing: Mutex<()>,
    /// The first sync error of this filesystem or one of its files.
    failure: OnceLock<Errno>,
}

/// The proof of a sync: everything that was written to the filesystems of a run before the sync began is on the disk.
#[derive(Debug)]
pub(crate) struct Synced(());

impl Synced {
    /// For tests of steps that follow a sync.
    #[cfg(test)]
    pub(crate) fn assumed() -> Synced {
        Synced(())
    }
}

impl Device {
    /// Ensures after a sync that a file's data is on the disk. Only needed if syncfs(2) is not reliable.
    pub(crate) fn confirm(&self, file: impl AsFd) -> rustix::io::Result<()> {
        if self.kind.is_some_and(Kind::has_reliable_syncfs) {
            return Ok(());
        }
        rustix::fs::fsync(file).inspect_err(|errno| self.has_failed(*errno))
    }

    /// Whether content was written that may still be only in memory. A clone on XFS and Btrfs changes only metadata,
    /// like the times and the name, and the journal keeps these changes in order. The source's data is on the disk.
    pub(crate) fn must_sync(&self, copied: &Copied) -> bool {
        let is_journaled = matches!(self.kind, Some(Kind::Xfs | Kind::Btrfs));
        copied.data > 0 && !(copied.engine == Engine::Clone && is_journaled)
    }

    fn has_failed(&self, errno: Errno) {
        let _ = self.failure.set(errno);
    }

    /// Whether nothing can be created on it any more, or a sync has failed. A sync error that is found here is
    /// remembered for the run.
    fn is_lost(&self) -> bool {
        if self.sync().is_ok() && self.any.as_ref().is_some_and(shutdown::is_unwritable) {
            self.has_failed(Errno::IO);
        }
        self.failure.get().is_some()
    }

    /// Syncs it, unless a sync failed before: the kernel reports each failed write once.
    fn sync(&self) -> rustix::io::Result<()> {
        let _alone = lock(&self.syncing);
        if let Some(errno) = self.failure.get() {
            return Err(*errno);
        }
        match &self.any {
            Some(fd) => rustix::fs::syncfs(fd).inspect_err(|errno| self.has_failed(*errno)),
            None => Ok(()),
        }
    }
}

/// The filesystems that are written to, by `st_dev`.
#[derive(Debug, Default)]
pub(crate) struct Devices(Mutex<HashMap<u64, Arc<Device>>>);

impl Devices {
    /// The filesystem of an open directory, or a placeholder if the directory does not exist yet.
    pub(crate) fn of(&self, dir: Option<&OwnedFd>) -> rustix::io::Result<Arc<Device>> {
        let dev = dir.map(|fd| rustix::fs::fstat(fd).map(|stat| stat.st_dev)).transpose()?.unwrap_or(0);
        let mut devices = lock(&self.0);
        if let Some(device) = devices.get(&dev) {
            return Ok(Arc::clone(device));
        }
        let any = dir.map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 0)).transpose()?;
        let kind = any.as_ref().and_then(|fd| Kind::of(fd).ok());
        let device = Arc::new(Device {
            strategy: Strategy::new(),
            kind,
            folds_case: OnceLock::new(),
            keeps_owners: OnceLock::new(),
            any,
            syncing: Mutex::default(),
            failure: OnceLock::new(),
        });
        devices.insert(dev, Arc::clone(&device));
        Ok(device)
    }

    /// Syncs all filesystems that were written to. `target` is for messages.
    ///
    /// # Errors
    /// After the first failure, every call fails.
    pub(crate) fn sync(&self, target: &Path) -> Result<Synced> {
        for device in self.all() {
            device.sync().map_err(|errno| not_written(target, errno))?;
        }
        Ok(Synced(()))
    }

    /// Checks that no sync has failed.
    ///
    /// # Errors
    /// The failure.
    pub(crate) fn check(&self, target: &Path) -> Result<()> {
        let failure = self.all().into_iter().find_map(|device| device.failure.get().copied());
        failure.map_or(Ok(()), |errno| Err(not_written(target, errno)))
    }

    /// Whether a call failed with this error because one of the filesystems has failed as a whole. If so, every later
    /// [`Devices::sync`] fails.
    pub(crate) fn are_lost(&self, errno: Errno) -> bool {
        shutdown::is_suspected(errno) && self.all().iter().any(|device| device.is_lost())
    }

    /// A copy of the list, so that no thread waits for the lock during a slow sync.
    fn all(&self) -> Vec<Arc<Device>> {
        lock(&self.0).values().cloned().collect()
    }
}

/// The error that ends a run after a failed sync.
fn not_written(target: &Path, errno: Errno) -> Error {
    Error::io("sync the new files in", target, errno).hint(
        "files with data that may be lost keep a provisional modification time, so that the next run replaces them; \
         check the disk (dmesg(1) shows its errors)",
    )
}

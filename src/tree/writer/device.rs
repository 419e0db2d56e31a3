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

/// A filesystem that is written to: which ways of copying work there, and a descriptor to sync it.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) strategy: Strategy,
    /// Its kind, where that is known.
    pub(crate) kind: Option<Kind>,
    /// Whether it takes names that differ only in case for one, if that is known for all of it.
    pub(super) folds_case: OnceLock<bool>,
    any: Option<OwnedFd>,
    /// Held during a sync until its result is known: the kernel reports an error to one call only.
    syncing: Mutex<()>,
    /// The first error of a sync, of this filesystem or of one of its files.
    failure: OnceLock<Errno>,
}

/// The proof of a sync: all that was written to the filesystems of a run before it began is on the disk.
#[derive(Debug)]
pub(crate) struct Synced(());

impl Synced {
    /// For tests of what comes after a sync.
    #[cfg(test)]
    pub(crate) fn assumed() -> Synced {
        Synced(())
    }
}

impl Device {
    /// Makes sure of the data of a file after a sync. There is something to do only if syncfs(2) is not enough.
    pub(crate) fn confirm(&self, file: impl AsFd) -> rustix::io::Result<()> {
        if self.kind.is_some_and(Kind::has_reliable_syncfs) {
            return Ok(());
        }
        rustix::fs::fsync(file).inspect_err(|errno| self.has_failed(*errno))
    }

    /// Whether content was written that may still be in memory only. A clone on XFS and Btrfs changes only metadata,
    /// like the times and the name, and the journal keeps these in their order; the source's data is on the disk.
    pub(crate) fn must_sync(&self, copied: &Copied) -> bool {
        let is_journaled = matches!(self.kind, Some(Kind::Xfs | Kind::Btrfs));
        copied.data > 0 && !(copied.engine == Engine::Clone && is_journaled)
    }

    fn has_failed(&self, errno: Errno) {
        let _ = self.failure.set(errno);
    }

    /// Whether nothing can be made on it any more, or a sync has failed. What a sync reports here is kept for the run.
    fn is_lost(&self) -> bool {
        if self.sync().is_ok() && self.any.as_ref().is_some_and(shutdown::is_unwritable) {
            self.has_failed(Errno::IO);
        }
        self.failure.get().is_some()
    }

    /// Syncs it, unless that failed before: the kernel reports each failed write once.
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
    /// The filesystem of an open directory; a stand-in if the directory does not exist yet.
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
            any,
            syncing: Mutex::default(),
            failure: OnceLock::new(),
        });
        devices.insert(dev, Arc::clone(&device));
        Ok(device)
    }

    /// Writes all that was made to the disks; `target` is for messages.
    ///
    /// # Errors
    /// Once it has failed, it always does.
    pub(crate) fn sync(&self, target: &Path) -> Result<Synced> {
        for device in self.all() {
            device.sync().map_err(|errno| not_written(target, errno))?;
        }
        Ok(Synced(()))
    }

    /// Whether no sync has failed.
    ///
    /// # Errors
    /// The failure.
    pub(crate) fn check(&self, target: &Path) -> Result<()> {
        let failure = self.all().into_iter().find_map(|device| device.failure.get().copied());
        failure.map_or(Ok(()), |errno| Err(not_written(target, errno)))
    }

    /// Whether a call failed with this error because one of the filesystems has failed as a whole. Then
    /// [`Devices::sync`] fails from now on.
    pub(crate) fn are_lost(&self, errno: Errno) -> bool {
        shutdown::is_suspected(errno) && self.all().iter().any(|device| device.is_lost())
    }

    /// A copy of the list, so that no thread waits for the lock during a slow sync.
    fn all(&self) -> Vec<Arc<Device>> {
        lock(&self.0).values().cloned().collect()
    }
}

/// The end of a run after a failed sync.
fn not_written(target: &Path, errno: Errno) -> Error {
    Error::io("write to the disk what was made in", target, errno).hint(
        "files whose data may be lost keep a provisional time of modification, so that the next run replaces them; \
         check the disk (dmesg(1) shows its errors)",
    )
}

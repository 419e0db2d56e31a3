//! A file that was written and whose data may not be on the disk yet: see `after_sync`.

use super::{Device, Replacing, Synced};
use crate::fs::metadata;
use crate::fs::status::Time;
use rustix::io::Result;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A time of modification so near the present may be the one that a file gets by being written. Filesystems store up to
/// two seconds as one.
const NEAR: i64 = 4;

/// Such a file, with all its metadata but its times and what these exclude.
#[derive(Debug)]
pub(crate) struct Unsynced {
    file: OwnedFd,
    device: Arc<Device>,
    atime: Time,
    mtime: Time,
    /// Its temporary name, and the file that it replaces at the end.
    replaces: Option<Replacing>,
}

impl Unsynced {
    /// A file of this filesystem that will have these times, and perhaps replace another.
    pub(super) fn new(
        file: OwnedFd,
        device: &Arc<Device>,
        (atime, mtime): (Time, Time),
        replaces: Option<Replacing>,
    ) -> Unsynced {
        Unsynced { file, device: Arc::clone(device), atime, mtime, replaces }
    }

    /// The name that it has until it replaces another file.
    pub(crate) fn temporary_name(&self) -> Option<&[u8]> {
        self.replaces.as_ref().map(Replacing::temporary_name)
    }

    /// Gives it its times and its name; then the file.
    ///
    /// # Errors
    /// Those of the calls. What fails leaves the file without its times, or the other one in its place. `STALE`: the
    /// other one was changed meanwhile.
    pub(crate) fn settle(self, synced: &Synced) -> Result<OwnedFd> {
        self.device.confirm(&self.file)?;
        metadata::set_times(&self.file, self.atime, self.mtime)?;
        self.settle_provisionally(synced)
    }

    /// Gives it its name and not its times, so that the next run takes it for another; then the file.
    ///
    /// # Errors
    /// Those of the calls.
    pub(crate) fn settle_provisionally(self, _: &Synced) -> Result<OwnedFd> {
        if let Some(replaces) = self.replaces {
            replaces.put()?;
        }
        Ok(self.file)
    }
}

impl AsFd for Unsynced {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Makes sure that a file which was just written has another time of modification than it will have. It has the present
/// one by being written, so that there is commonly nothing to do.
pub(crate) fn set_provisional_time(file: impl AsFd, wanted: Time) -> Result<()> {
    let now = Time::now();
    if (now.seconds - wanted.seconds).abs() > NEAR {
        return Ok(());
    }
    let earlier = Time { seconds: wanted.seconds.saturating_sub(24 * 60 * 60), nanos: 0 };
    metadata::set_times(file, now, earlier)
}

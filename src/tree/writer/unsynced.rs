//! A written file with data that may not be on the disk yet: see `after_sync`.

use super::{Device, Replacing, Synced};
use crate::fs::metadata::{self, FileAttr, RefusedAttr};
use crate::fs::status::Time;
use rustix::io::Result;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A modification time this close to the present, in seconds, may be the one that a file gets when it is written.
/// Filesystems may store times with a resolution of two seconds.
const NEAR: u64 = 4;

/// Such a file. It has all its metadata except the times and its seal, which would prevent setting them.
#[derive(Debug)]
pub(crate) struct Unsynced {
    file: OwnedFd,
    device: Arc<Device>,
    atime: Time,
    mtime: Time,
    /// Its temporary name, and the file that it will replace.
    replaces: Option<Replacing>,
    /// The flags and project id that it gets last.
    seal: Option<FileAttr>,
}

impl Unsynced {
    /// A file on this filesystem that will get these times and this seal, and may replace another file.
    pub(super) fn new(
        file: OwnedFd,
        device: &Arc<Device>,
        (atime, mtime): (Time, Time),
        replaces: Option<Replacing>,
        seal: Option<FileAttr>,
    ) -> Unsynced {
        Unsynced { file, device: Arc::clone(device), atime, mtime, replaces, seal }
    }

    /// The name that it has until it replaces the other file.
    pub(crate) fn temporary_name(&self) -> Option<&[u8]> {
        self.replaces.as_ref().map(Replacing::temporary_name)
    }

    /// Sets its times, gives it its name, and seals it. Returns the parts of the seal that were refused.
    ///
    /// # Errors
    /// Errors of the calls. After an error, the file lacks its times, or the other file is still in its place. `STALE`:
    /// the other file was changed meanwhile.
    pub(crate) fn settle(self, synced: &Synced) -> Result<RefusedAttr> {
        self.device.confirm(&self.file)?;
        metadata::set_times(&self.file, self.atime, self.mtime)?;
        self.name(synced)
    }

    /// Gives it its name and its seal but not its times, so that the next run considers it different. Returns the parts
    /// of the seal that were refused.
    ///
    /// # Errors
    /// Errors of the calls.
    pub(crate) fn settle_provisionally(self, synced: &Synced) -> Result<RefusedAttr> {
        self.device.confirm(&self.file)?;
        self.name(synced)
    }

    fn name(self, _: &Synced) -> Result<RefusedAttr> {
        if let Some(replaces) = self.replaces {
            replaces.put()?;
        }
        Ok(self.seal.map_or(RefusedAttr::default(), |seal| seal.seal(self.file)))
    }
}

impl AsFd for Unsynced {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Ensures that a file which was just written has a different modification time than its final one. Usually nothing is
/// necessary, because writing gave it the current time.
pub(super) fn set_provisional_time(file: impl AsFd, wanted: Time) -> Result<()> {
    let now = Time::now();
    if now.seconds.abs_diff(wanted.seconds) > NEAR {
        return Ok(());
    }
    let earlier = Time { seconds: wanted.seconds.saturating_sub(24 * 60 * 60), nanos: 0 };
    metadata::set_times(file, now, earlier)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn any_final_time_differs_from_the_provisional_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("file")).unwrap();
        for seconds in [i64::MIN, i64::MIN + 1, -1, 0, Time::now().seconds, i64::MAX] {
            set_provisional_time(&file, Time { seconds, nanos: 0 }).unwrap();
            assert_ne!(file.metadata().unwrap().mtime(), seconds);
        }
    }
}

//! Makes the change time of a file reliable before the file is read.
//!
//! A store through a shared mapping changes the times of a file only when it makes a clean page dirty. Until that page
//! is written to the disk, further stores change no time. So a file that is read while it has such pages may change
//! later without a trace. Writing the pages makes them clean and write-protected, and the next store changes the times.
//!
//! The order matters: take the status, flush, then read. A store after the flush changes the ctime, and an earlier
//! store is in the data that is read. FICLONE flushes its source by itself.

use crate::fs::filesystem::Kind;
use crate::fs::status::Status;
use crate::sys::{cachestat, sync_file_range};
use crate::util::mutex::lock;
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;

/// After this many dirty files the whole filesystem is synced, so that a tree that was just written is not flushed file
/// by file.
const MANY: u64 = 16;
/// The filesystem is synced again after this many more.
const MORE: u64 = 4096;

/// Larger files are written without asking whether they have dirty pages: that takes time for each page in memory.
const ASKED_UP_TO: u64 = 1 << 20;

/// Flushes files before they are read, and remembers the method for each filesystem.
#[derive(Debug, Default)]
pub(crate) struct Flusher {
    /// By device.
    devices: Mutex<HashMap<u64, Device>>,
}

#[derive(Debug)]
struct Device {
    /// Whether its files have their own pages.
    owns_pages: bool,
    /// The number of dirty files so far.
    dirty: u64,
}

impl Flusher {
    /// Writes the dirty pages of an open file. A clean file costs one short call.
    ///
    /// # Errors
    /// After an error, a later change of the file may not be visible in its times.
    pub(crate) fn flush(&self, file: impl AsFd, status: &Status) -> Result<()> {
        let file = file.as_fd();
        if !self.device(file, status.dev, |device| device.owns_pages) {
            return sync(file);
        }
        if status.size <= ASKED_UP_TO {
            match cachestat::is_dirty(file) {
                Ok(Some(false)) => return Ok(()),
                Ok(Some(true)) if self.device(file, status.dev, Device::met_dirty_file) => {
                    // If that fails, the error of the file counts.
                    let _ = rustix::fs::syncfs(file);
                }
                // Unknown: the next call is very fast if there is nothing to write.
                _ => {}
            }
        }
        match sync_file_range::write_and_wait(file) {
            Err(Errno::NOSYS | Errno::INVAL | Errno::SPIPE | Errno::PERM) => sync(file),
            result => result,
        }
    }

    fn device<R>(&self, file: BorrowedFd<'_>, dev: u64, ask: impl FnOnce(&mut Device) -> R) -> R {
        let mut devices = lock(&self.devices);
        let new = || Device { owns_pages: Kind::of(file).is_ok_and(has_files_with_pages), dirty: 0 };
        ask(devices.entry(dev).or_insert_with(new))
    }
}

impl Device {
    /// Counts a dirty file. Returns whether to sync the filesystem now.
    fn met_dirty_file(&mut self) -> bool {
        self.dirty += 1;
        self.dirty == MANY || self.dirty.is_multiple_of(MORE)
    }
}

fn sync(file: BorrowedFd<'_>) -> Result<()> {
    match rustix::fs::fdatasync(file) {
        // Nothing to write, as for a file in procfs.
        Err(Errno::INVAL | Errno::ROFS) => Ok(()),
        result => result,
    }
}

/// Whether the pages of a mapped file belong to the file opened here. Files of an overlay or a FUSE filesystem may be
/// mapped through the filesystem below, and only fsync(2) reaches its pages.
fn has_files_with_pages(kind: Kind) -> bool {
    matches!(kind, Kind::Xfs | Kind::Btrfs | Kind::Ext4 | Kind::Tmpfs | Kind::Bcachefs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_flushed_file_has_no_dirty_page_and_needs_no_right_to_write() {
        for size in [100_000, ASKED_UP_TO + 1] {
            let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
            file.write_all(&vec![7; size as usize]).unwrap();
            let read_only = std::fs::File::open(file.path()).unwrap();
            let (flusher, status) = (Flusher::default(), Status::of(&read_only).unwrap());
            assert_ne!(cachestat::is_dirty(&read_only), Ok(Some(false)));
            for _ in 0..2 {
                flusher.flush(&read_only, &status).unwrap();
                assert_ne!(cachestat::is_dirty(&read_only), Ok(Some(true)));
            }
        }
    }

    #[test]
    fn a_filesystem_is_synced_when_many_dirty_files_were_met_and_seldom_after_that() {
        let mut device = Device { owns_pages: true, dirty: 0 };
        let synced: Vec<u64> = (1..=10_000).filter(|_| device.met_dirty_file()).collect();
        assert_eq!(synced, [MANY, MORE, 2 * MORE]);
    }

    #[test]
    fn files_that_have_no_pages_are_no_error() {
        let file = std::fs::File::open("/proc/self/status").unwrap();
        Flusher::default().flush(&file, &Status::of(&file).unwrap()).unwrap();
    }
}

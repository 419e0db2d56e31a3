//! `sync_file_range(2)`: writes the dirty pages of a file, without its metadata and without a flush of the disk's
//! cache.

use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, AsRawFd};

/// Writes all dirty pages of a file and waits for completion. Works with any open file. Takes almost no time if no page
/// is dirty.
///
/// # Errors
/// `SPIPE` if it is not a file; errors of the device.
#[doc(alias = "sync_file_range")]
pub(crate) fn write_and_wait(file: impl AsFd) -> Result<()> {
    let how = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the descriptor is borrowed, hence open, for the length of the call, and all arguments are numbers.
    match unsafe { libc::sync_file_range(file.as_fd().as_raw_fd(), 0, 0, how) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

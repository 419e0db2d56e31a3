//! Space that was reserved for a file and never written (`fallocate`) is reserved in its copy as well.
//!
//! `SEEK_DATA` tells it like a hole, so only a file with holes that has more on disk than its data takes is asked for its
//! extents. Space reserved behind the end is not kept: it is mostly what the filesystem itself set aside for a growing file, and
//! will take back.

use super::content::CopyError;
use crate::extent::ExtentFlags;
use crate::status::Status;
use crate::sys::fiemap;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// The unit of allocation nearly everywhere; where it is another one, only a question more or less is asked.
const BLOCK: u64 = 4096;

/// Reserves in `destination`, which has its data and its size, what is reserved in `source` of this status and `data` bytes of data.
///
/// # Errors
/// `NOSPC` or `DQUOT` of the destination. Where it cannot reserve at all, the ranges stay holes.
pub(super) fn keep(
    source: BorrowedFd<'_>,
    status: &Status,
    data: u64,
    destination: BorrowedFd<'_>,
) -> Result<(), CopyError> {
    if status.allocated < data + BLOCK {
        return Ok(());
    }
    let end = status.size.next_multiple_of(BLOCK);
    for extent in fiemap::extents(source, true) {
        // Without a map nothing is known to be reserved.
        let Ok(extent) = extent else { return Ok(()) };
        if extent.logical >= end {
            break;
        }
        if !extent.flags.contains(ExtentFlags::UNWRITTEN) {
            continue;
        }
        let length = extent.logical_end().min(end) - extent.logical;
        match fallocate(destination, FallocateFlags::KEEP_SIZE, extent.logical, length) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(()),
            Err(errno) => return Err(CopyError::Destination(errno)),
        }
    }
    Ok(())
}

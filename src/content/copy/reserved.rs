//! Space that was reserved for a file and never written (`fallocate`) is reserved in its copy as well.
//!
//! `SEEK_DATA` tells it like a hole, so only a file with holes that has more on disk than its data takes is asked for its
//! extents. Space reserved behind the end is not kept: it is mostly what the filesystem itself set aside for a growing file, and
//! will take back.

use super::content::CopyError;
use crate::extents::extent::ExtentFlags;
use crate::fs::status::Status;
use crate::sys::fiemap;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// The unit of allocation nearly everywhere; where it is another one, only a question more or less is asked.
const BLOCK: u64 = 4096;

/// Reserves in `destination`, which has its data and its size, what is reserved in `source` of this status and `data` bytes of data.
/// It stays a hole if the destination cannot reserve all of it, or if that is more than half of the free space: other files, which
/// are being copied meanwhile, need space for their data.
///
/// # Errors
/// Other errors of the destination.
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
    let wanted: u64 = reserved(source, end).map(|(_, length)| length).sum();
    let free = fstatvfs(destination).map_or(u64::MAX, |space| space.f_bavail.saturating_mul(space.f_frsize));
    if wanted > free / 2 {
        return Ok(());
    }
    let each = |mode| reserved(source, end).try_for_each(|(at, length)| fallocate(destination, mode, at, length));
    match each(FallocateFlags::KEEP_SIZE) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
        Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => {
            // Data that is copied later needs what was reserved so far.
            let _ = each(FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE);
            Ok(())
        }
        Err(errno) => Err(CopyError::Destination(errno)),
    }
}

/// The ranges of a file before `end` that are reserved and not written: offset and length. Without a map none is known.
fn reserved(source: BorrowedFd<'_>, end: u64) -> impl Iterator<Item = (u64, u64)> {
    let extents = fiemap::extents(source, true).map_while(Result::ok);
    extents
        .take_while(move |extent| extent.logical < end)
        .filter(|extent| extent.flags.contains(ExtentFlags::UNWRITTEN))
        .map(move |extent| (extent.logical, extent.logical_end().min(end) - extent.logical))
}

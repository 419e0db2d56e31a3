//! Space that was reserved for a file and never written (`fallocate`) is reserved in its copy too.
//!
//! `SEEK_DATA` reports it as a hole. So only a file with holes that takes more disk space than its data is asked for
//! its extents. Space reserved after the end is not kept: usually the filesystem reserved it for a growing file and
//! will release it.

use super::types::CopyError;
use crate::extents::extent::ExtentFlags;
use crate::fs::status::Status;
use crate::sys::fiemap;
use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// The usual unit of allocation. With another one, only the number of queries changes.
const BLOCK: u64 = 4096;

/// Reserves in `destination`, which has its data and its size, the ranges that are reserved in `source`, which has this
/// status and `data` bytes of data. They stay holes if the destination cannot reserve all of them, or if they need more
/// than half of the free space: other files are being copied and need space for their data.
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
            // Release it again: data that is copied later needs the space.
            let _ = each(FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE);
            Ok(())
        }
        Err(errno) => Err(CopyError::Destination(errno)),
    }
}

/// The ranges of a file before `end` that are reserved and not written: offset and length. None if the filesystem has
/// no extent maps.
fn reserved(source: BorrowedFd<'_>, end: u64) -> impl Iterator<Item = (u64, u64)> {
    let extents = fiemap::extents(source, true).map_while(Result::ok);
    extents
        .take_while(move |extent| extent.logical < end)
        .filter(|extent| extent.flags.contains(ExtentFlags::UNWRITTEN))
        .map(move |extent| (extent.logical, extent.logical_end().min(end) - extent.logical))
}

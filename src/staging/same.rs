//! Whether a file that is there is what it should be, asked only where times do not tell.

use crate::extent::ExtentFlags;
use crate::hash;
use crate::monitor::Monitor;
use crate::sys::fiemap;
use rustix::io::Result;
use std::os::fd::BorrowedFd;

/// Whether two files provably have the same content, because all their extents are the same. Encoded extents prove
/// nothing: their addresses do not tell which part of the encoded data is meant.
pub(crate) fn has_same_extents(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> Result<bool> {
    let (mut a, mut b) = (fiemap::extents(a, true), fiemap::extents(b, true));
    loop {
        let (x, y) = match (a.next(), b.next()) {
            (None, None) => return Ok(true),
            (Some(Ok(x)), Some(Ok(y))) => (x, y),
            // Not all filesystems have extent maps: then nothing is proven.
            _ => return Ok(false),
        };
        let is_placed = x.physical.is_some() && !x.flags.contains(ExtentFlags::ENCODED);
        let is_same = (x.logical, x.physical, x.length) == (y.logical, y.physical, y.length);
        let written = |flags: ExtentFlags| flags.contains(ExtentFlags::UNWRITTEN);
        if !is_placed || !is_same || written(x.flags) != written(y.flags) {
            return Ok(false);
        }
    }
}

/// Whether two files of this size have the same content: by their extents, or else read and compared by their hashes.
///
/// # Errors
/// `CANCELED` when the monitor asks to stop.
pub(crate) fn has_same_content(a: BorrowedFd<'_>, b: BorrowedFd<'_>, size: u64, monitor: &dyn Monitor) -> Result<bool> {
    Ok(has_same_extents(a, b)? || hash::file(a, size, monitor)?.hash == hash::file(b, size, monitor)?.hash)
}

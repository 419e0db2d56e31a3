//! Checks whether an existing file has the right content, if size and times do not show it.

use crate::content::same_content;
use crate::extents::layout;
use crate::monitor::Monitor;
use rustix::fs::{Advice, fadvise};
use rustix::io::Result;
use std::os::fd::BorrowedFd;

/// Whether two files have the same content because they are in the same address space and have the same extents. Only
/// looks at the extents. `false` proves nothing. See [`layout::has_same_extents`].
pub(crate) fn has_same_extents(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> Result<bool> {
    // A file that cannot be flushed or has no extent map proves nothing. A later read of the file returns the same
    // error.
    Ok(layout::has_same_extents(a, b).unwrap_or(false))
}

/// Whether a source and its copy, both of this size, have the same content. Compares the extents first, then the data.
/// The copy is read from its disk.
///
/// # Errors
/// `CANCELED` when the monitor asks to stop. Errors of writing the copy's dirty pages, and of reading.
pub(crate) fn has_same_content(
    source: BorrowedFd<'_>,
    copy: BorrowedFd<'_>,
    size: u64,
    monitor: &dyn Monitor,
) -> Result<bool> {
    if has_same_extents(source, copy)? {
        return Ok(true);
    }
    drop_cached(copy)?;
    Ok(same_content::compare(source, copy, size, monitor)?.is_equal)
}

/// Drops the cached pages of a file, so that the next read comes from its disk. After a failed write the kernel keeps
/// the pages and marks them clean: they have the written data, but the disk does not.
///
/// # Errors
/// Errors of writing the dirty pages.
fn drop_cached(file: BorrowedFd<'_>) -> Result<()> {
    rustix::fs::fdatasync(file)?;
    fadvise(file, 0, None, Advice::DontNeed)
}

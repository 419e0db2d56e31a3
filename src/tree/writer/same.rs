//! Whether an existing file has the content that it should have, if size and times do not answer that.

use crate::content::same_content;
use crate::extents::layout;
use crate::monitor::Monitor;
use rustix::fs::{Advice, fadvise};
use rustix::io::Result;
use std::os::fd::BorrowedFd;

/// Whether two files have the same content and the same address space, so that it takes only a look at their extents.
/// `false` proves nothing. See [`layout::has_same_extents`].
pub(crate) fn has_same_extents(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> Result<bool> {
    // A file that cannot be flushed or has no map proves nothing; whoever reads it meets the error.
    Ok(layout::has_same_extents(a, b).unwrap_or(false))
}

/// Whether a source and its copy, both of this size, have the same content: by their extents, or else read and
/// compared. The copy is read from its disk.
///
/// # Errors
/// `CANCELED` when the monitor asks to stop. Those of writing the copy's dirty pages, and of reading.
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

/// Has the next reader of a file read it from its disk. After a failed write the kernel keeps the pages and calls them
/// clean: they show what was written, and the disk has something else.
///
/// # Errors
/// Those of writing the pages that are dirty now.
fn drop_cached(file: BorrowedFd<'_>) -> Result<()> {
    rustix::fs::fdatasync(file)?;
    fadvise(file, 0, None, Advice::DontNeed)
}

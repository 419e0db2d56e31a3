//! Makes a clone of a changed file from a file that has the content of its last version, on Btrfs.
//!
//! A clone of a whole file makes an item for each of its extents. After hundreds of snapshots with scattered changes
//! between them, the image of a machine has hundreds of thousands of extents. Here only the few new ones are cloned.

use crate::extents::differing::each_differing;
use crate::extents::layout::Way;
use crate::extents::ranges::Bytes;
use crate::fs::status::Status;
use crate::sys::reflink;
use rustix::io::{Errno, Result};
use std::os::fd::BorrowedFd;

/// The most ranges that are remembered.
const MOST: usize = 1 << 20;

/// Gives `file`, which nobody else uses, the content of `source`, with the same extents. Unlike a clone of the whole
/// source this takes more than a moment: the caller checks that the source did not change meanwhile.
///
/// Returns the ranges in which `file` may have changed, in order and disjoint; `None` if they are too many.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`, and other errors of the calls. `file` has any content then.
pub(crate) fn follow(source: BorrowedFd<'_>, file: BorrowedFd<'_>) -> Result<Option<Vec<Bytes>>> {
    let inode = |file| Way::finest(file, None, true).items.ok_or(Errno::PERM);
    let (its, own) = (inode(source)?, inode(file)?);
    let size = Status::of(source)?.size;
    if Status::of(file)?.size != size {
        rustix::fs::ftruncate(file, size)?;
    }
    let mut changed = Some(Vec::new());
    each_differing((source, its), (file, own), |range| {
        // Space may be reserved behind the end.
        let end = range.end.min(size);
        if range.start >= end {
            return Ok(());
        }
        reflink::clone_range(source, range.start, end - range.start, file, range.start)?;
        changed = changed.take().filter(|ranges| ranges.len() < MOST);
        changed.iter_mut().for_each(|ranges| ranges.push(range.start..end));
        Ok(())
    })?;
    Ok(changed)
}

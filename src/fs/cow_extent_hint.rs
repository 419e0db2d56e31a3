//! The copy-on-write extent size hint of XFS. For each write into a shared range, XFS reserves 32 blocks and keeps them
//! for minutes. With this hint it reserves one block, which suits small writes into a clone.

use crate::sys::fsxattr::{self, COW_EXTENT_SIZE};
use rustix::io::Result;
use std::os::fd::BorrowedFd;

/// A file with the hint, until `end`.
pub(crate) struct CowExtentHint {
    before: fsxattr::FsXattr,
}

impl CowExtentHint {
    /// Sets the hint to a block. `None` on other filesystems than XFS.
    pub(crate) fn begin(file: BorrowedFd<'_>, block: u64) -> Option<CowExtentHint> {
        let before = fsxattr::get(file).ok()?;
        let cow_extent_size = u32::try_from(block).ok()?;
        let mut changed = before;
        changed.xflags |= COW_EXTENT_SIZE;
        changed.cow_extent_size = cow_extent_size;
        fsxattr::set(file, changed).ok().map(|()| CowExtentHint { before })
    }

    /// Restores the previous hint.
    pub(crate) fn end(self, file: BorrowedFd<'_>) -> Result<()> {
        fsxattr::set(file, self.before)
    }
}

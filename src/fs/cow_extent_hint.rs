//! Small writes into a clone on XFS: it sets 32 blocks aside for each write into a shared range, and keeps them for minutes.
//! With the hint that is set here it sets one aside.

use crate::sys::fsxattr::{self, COW_EXTENT_SIZE};
use rustix::io::Result;
use std::os::fd::BorrowedFd;

/// The hint is in force while this lasts.
pub(crate) struct CowExtentHint {
    before: fsxattr::FsXattr,
}

impl CowExtentHint {
    /// Sets it to a block. `None` where there is no such hint: everywhere but on XFS.
    pub(crate) fn begin(file: BorrowedFd<'_>, block: u64) -> Option<CowExtentHint> {
        let before = fsxattr::get(file).ok()?;
        let cow_extent_size = u32::try_from(block).ok()?;
        let mut finely = before;
        finely.xflags |= COW_EXTENT_SIZE;
        finely.cow_extent_size = cow_extent_size;
        fsxattr::set(file, finely).ok().map(|()| CowExtentHint { before })
    }

    /// Gives the file the hint that it had.
    pub(crate) fn end(self, file: BorrowedFd<'_>) -> Result<()> {
        fsxattr::set(file, self.before)
    }
}

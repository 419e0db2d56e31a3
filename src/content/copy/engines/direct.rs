//! Writing past the page cache (`O_DIRECT`), switched on and off on an open file: its tail cannot go that way.

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::os::fd::BorrowedFd;

/// A file that is written so until this ends.
pub(super) struct Direct<'a> {
    file: BorrowedFd<'a>,
    /// The flags without that.
    flags: OFlags,
    is_on: bool,
}

impl<'a> Direct<'a> {
    /// Switches it on, if that is wanted and the filesystem can.
    pub(super) fn begin(file: BorrowedFd<'a>, is_wanted: bool) -> Self {
        let flags = if is_wanted { fcntl_getfl(file).ok() } else { None };
        let is_on = flags.is_some_and(|flags| fcntl_setfl(file, flags | OFlags::DIRECT).is_ok());
        Direct { file, flags: flags.unwrap_or(OFlags::empty()), is_on }
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Switches it off; whether it was on.
    pub(super) fn end(&mut self) -> bool {
        let was_on = std::mem::take(&mut self.is_on);
        if was_on {
            let _ = fcntl_setfl(self.file, self.flags);
        }
        was_on
    }
}

impl Drop for Direct<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

//! `mmap(2)` of a file that others may write and truncate meanwhile: a mapping that this process never reads.
//!
//! Memory that changes by itself must not be exposed as a slice, and reading a page that the file has lost raises
//! SIGBUS. So the mapping supports only one operation: the kernel writes it to a file. There, neither is a problem.

use rustix::io::{Errno, Result};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A range of a file, mapped for the kernel to read.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<c_void>,
    length: usize,
}

impl Mapping {
    /// Maps `length` bytes of a file. The offset must be a multiple of the page size.
    ///
    /// # Errors
    /// Errors of mmap(2): `NODEV` if the filesystem does not support it, `INVAL` for a length of 0.
    #[doc(alias = "mmap")]
    pub(crate) fn of(file: BorrowedFd<'_>, offset: u64, length: usize) -> Result<Mapping> {
        // SAFETY: a new mapping at an address of the kernel's choice does not affect existing memory.
        let start = unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, offset) }?;
        let mapping = Mapping { start: NonNull::new(start).ok_or(Errno::NOMEM)?, length };
        // SAFETY: the range belongs to the mapping, and this advice does not change its content. Without it, reading
        // only takes longer.
        let _ = unsafe { madvise(start, length, Advice::Sequential) };
        Ok(mapping)
    }

    /// Writes a range of the mapping into a file at an offset (pwrite(2)). Returns the number of bytes written.
    ///
    /// # Errors
    /// `FAULT` if the first page is beyond the end of the mapped file, or cannot be read; `INVAL` for a range outside
    /// of the mapping.
    pub(crate) fn write_to(&self, range: Range<usize>, file: impl AsFd, at: u64) -> Result<usize> {
        if range.start > range.end || range.end > self.length {
            return Err(Errno::INVAL);
        }
        let at = libc::off_t::try_from(at).map_err(|_| Errno::FBIG)?;
        // SAFETY: the range lies within the mapping (checked above).
        let from = unsafe { self.start.as_ptr().cast::<u8>().add(range.start) };
        // SAFETY: the kernel reads addresses of a mapping that outlives the call; it refuses addresses with a missing
        // page.
        let written = unsafe { libc::pwrite(file.as_fd().as_raw_fd(), from.cast(), range.len(), at) };
        usize::try_from(written)
            .map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `of`, and nobody has a pointer into it.
        let _ = unsafe { munmap(self.start.as_ptr(), self.length) };
    }
}

//! `cachestat(2)`: how much of a file is in the page cache. Linux 6.5 and later.
//!
//! Source: `include/uapi/linux/mman.h`.

use rustix::io::{Errno, Result};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};

/// The number of the call on every architecture with numbers that begin at 0. The libc crate does not have it yet.
const CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range`.
#[repr(C)]
struct Place {
    offset: u64,
    length: u64,
}

/// `struct cachestat`, in pages.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// How many bytes of a range of a file are in memory, in whole pages.
///
/// # Errors
/// `NOSYS` on older kernels; `PERM` for another user's file that is not open for writing; `OPNOTSUPP` for hugetlbfs.
#[doc(alias = "cachestat")]
pub(crate) fn cached(file: impl AsFd, range: Range<u64>) -> Result<u64> {
    stat(file, range).map(|found| found.cached * rustix::param::page_size() as u64)
}

/// Whether a file has dirty pages. `None` if it may be on persistent memory, where pages are not counted.
///
/// # Errors
/// Like [`cached`].
pub(crate) fn is_dirty(file: impl AsFd) -> Result<Option<bool>> {
    stat(file, 0..u64::MAX)
        .map(|found| if found.dirty > 0 || found.evicted == 0 { Some(found.dirty > 0) } else { None })
}

fn stat(file: impl AsFd, range: Range<u64>) -> Result<Cachestat> {
    if cfg!(any(target_arch = "mips", target_arch = "mips32r6", target_arch = "mips64", target_arch = "mips64r6")) {
        return Err(Errno::NOSYS);
    }
    let place = Place { offset: range.start, length: range.end.saturating_sub(range.start) };
    let mut found = Cachestat::default();
    // SAFETY: the descriptor is borrowed, hence open, for the length of the call; the kernel reads the first structure
    // and fills the second. Both are declared as in the kernel's header.
    let result = unsafe {
        libc::syscall(CACHESTAT, file.as_fd().as_raw_fd(), &raw const place, std::ptr::from_mut(&mut found), 0)
    };
    match result {
        0 => Ok(found),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn what_was_just_written_is_in_memory_and_what_lies_behind_it_is_not() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 100_000]).unwrap();
        match cached(&file, 0..100_000) {
            Err(Errno::NOSYS) => {}
            found => {
                assert!(found.unwrap() >= 100_000);
                assert_eq!(cached(&file, 1 << 30..1 << 31), Ok(0));
            }
        }
    }
}

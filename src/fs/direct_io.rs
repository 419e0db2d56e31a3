//! Direct reads, for data that is read once. They do not evict the data of other programs from the page cache, and the
//! kernel allocates no page for each page read, which costs more than the read in many virtual machines.

mod aligned;

pub(crate) use aligned::{ALIGN, Aligned};

use crate::fs::openat::without_access;
use crate::fs::pread::{read_full, repeat};
use crate::sys::{cachestat, sync_file_range};
use rustix::fs::{Advice, Mode, OFlags, fadvise};
use rustix::io::{Errno, ReadWriteFlags, Result, pread, preadv2};
use std::io::IoSliceMut;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::LazyLock;

/// Cold ranges of at least this length, in bytes, are read by direct I/O. It costs an open and a query of the cache.
const LARGE: u64 = 16 << 20;
/// Reads shorter than this, in bytes, are left to the kernel's readahead.
const LONG: usize = 256 << 10;
/// A range with more than this fraction (1/8) in memory is read through the cache.
const WARM: u64 = 8;

/// A file that is read once, in any order, by any number of threads.
#[derive(Debug)]
pub(crate) struct Once<'a> {
    file: BorrowedFd<'a>,
    /// The same file, open for direct I/O (`O_DIRECT` of open(2)).
    direct: Option<OwnedFd>,
}

impl<'a> Once<'a> {
    /// Prepares to read this range of `file`: by direct I/O if the range is long, mostly not in memory, and the
    /// filesystem supports it; otherwise like [`read_once`].
    pub(crate) fn begin(file: BorrowedFd<'a>, range: Range<u64>) -> Self {
        let length = range.end - range.start;
        let is_cold = || cachestat::cached(file, range).is_ok_and(|cached| cached <= length / WARM);
        Once { file, direct: if length >= LARGE && is_cold() { open_direct(file) } else { None } }
    }

    /// Prepares to read a short range, like [`read_once`].
    pub(crate) fn short(file: BorrowedFd<'a>) -> Self {
        Once { file, direct: None }
    }

    /// The file.
    pub(crate) fn file(&self) -> BorrowedFd<'a> {
        self.file
    }

    /// Reads from the offset `at` until the buffer is full or the file ends. Returns the number of bytes. Only reads
    /// that start at a multiple of [`ALIGN`], in the file and in memory, can bypass the cache.
    pub(crate) fn read(&self, buffer: &mut [u8], at: u64) -> Result<usize> {
        let mut done = self.read_direct(buffer, at);
        if done < buffer.len() {
            done += read_once(self.file, &mut buffer[done..], at + done as u64)?;
        }
        Ok(done)
    }

    /// Reads as much as possible directly, which excludes the end of the file. After an error, the next read returns it
    /// too.
    fn read_direct(&self, buffer: &mut [u8], at: u64) -> usize {
        let blocks = buffer.len() / ALIGN * ALIGN;
        let is_aligned = at.is_multiple_of(ALIGN as u64) && buffer.as_ptr().align_offset(ALIGN) == 0;
        let Some(direct) = self.direct.as_ref().filter(|_| is_aligned && blocks >= LONG) else { return 0 };
        let mut done = 0;
        while done < blocks {
            match pread(direct, &mut buffer[done..blocks], at + done as u64) {
                Ok(now) => {
                    done += now;
                    if now == 0 || !now.is_multiple_of(ALIGN) {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        done
    }
}

/// Opens the file again for direct I/O, with its own position and flags.
pub(crate) fn open_direct(file: BorrowedFd<'_>) -> Option<OwnedFd> {
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    without_access(|access| rustix::fs::open(itself.as_str(), flags | access, Mode::empty())).ok()
}

/// Writes the dirty pages of a file and drops all its pages from memory, so that the next read comes from the disk.
/// Returns whether the kernel reports success.
///
/// # Errors
/// Errors of writing. An error of an earlier write, which the kernel reports once, is returned after all pages were
/// dropped.
pub(crate) fn forget(file: impl AsFd, size: u64) -> Result<bool> {
    let written = sync_file_range::write_and_wait(&file);
    if written.is_err() {
        // The kernel reports an earlier error before it writes anything.
        sync_file_range::write_and_wait(&file)?;
    }
    let is_dropped = drop_pages(file, size)?;
    written.map(|()| is_dropped)
}

/// Drops the clean pages of a file from memory. Returns whether the kernel reports success.
fn drop_pages(file: impl AsFd, size: u64) -> Result<bool> {
    // The first attempt misses pages that another thread is adding.
    for _ in 0..3 {
        fadvise(&file, 0, None, Advice::DontNeed)?;
        match cachestat::cached(&file, 0..size) {
            Ok(0) => return Ok(true),
            Ok(_) => {}
            Err(_) => return Ok(true),
        }
    }
    Ok(false)
}

/// Like [`read_full`], but pages that this read adds to the page cache are dropped at once; other pages stay
/// (`RWF_DONTCACHE` of preadv2(2)). Without kernel support this is a normal read.
pub(crate) fn read_once(fd: impl AsFd, buffer: &mut [u8], at: u64) -> Result<usize> {
    /// `RWF_DONTCACHE` of linux/fs.h.
    const DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);
    static IS_SAFE: LazyLock<bool> = LazyLock::new(|| drops_only_clean(rustix::system::uname().release().to_bytes()));
    if !*IS_SAFE {
        return read_full(fd, buffer, at);
    }
    repeat(buffer.len(), |done| {
        let (buffer, at) = (&mut buffer[done..], at + done as u64);
        match preadv2(&fd, &mut [IoSliceMut::new(buffer)], at, DONTCACHE) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => pread(&fd, buffer, at),
            result => result,
        }
    })
}

/// Whether a kernel of this release checks that a page is still clean before it drops it. The flag came with Linux
/// 6.14; the check came with 6.16.
fn drops_only_clean(release: &[u8]) -> bool {
    let numbers = release.split(|byte| !byte.is_ascii_digit()).map(|digits| str::from_utf8(digits).ok()?.parse().ok());
    let version: Option<Vec<u32>> = numbers.take(2).collect();
    version.is_some_and(|version| version.as_slice() >= [6, 16].as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::pread::write_all;
    use std::fs::File;

    fn filled(length: usize) -> (File, Vec<u8>) {
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let content: Vec<u8> = (0..length).map(|number| (number / 7) as u8).collect();
        write_all(&file, &content, 0).unwrap();
        (file, content)
    }

    #[test]
    fn a_read_that_leaves_nothing_behind_reads_the_same() {
        let (file, content) = filled(300_000);
        let mut buffer = vec![0; 400_000];
        assert_eq!(read_once(&file, &mut buffer, 1000), Ok(299_000));
        assert_eq!(buffer[..299_000], content[1000..]);
    }

    #[test]
    fn a_large_file_reads_the_same_cold_and_warm_at_any_place_and_beyond_its_end() {
        let (file, content) = filled(LARGE as usize + 4097);
        file.sync_all().unwrap();
        for is_cold in [true, false] {
            if is_cold {
                fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            }
            let once = Once::begin(file.as_fd(), 0..content.len() as u64);
            assert!(is_cold || once.direct.is_none(), "what is in memory is read from there");
            let end = content.len();
            for (at, length) in
                [(0, LONG), (4096, 1 << 20), (100, LONG), (4096, 5000), (end - LONG, LONG), (end - 9, LONG)]
            {
                for shift in [0, 1] {
                    let mut buffer = Aligned::take(length + shift);
                    let got = once.read(&mut buffer.bytes_mut()[shift..], at as u64).unwrap();
                    assert_eq!(got, length.min(end - at), "{at}");
                    assert!(buffer.bytes()[shift..shift + got] == content[at..at + got], "{at} {shift}");
                }
            }
        }
    }

    #[test]
    fn a_file_that_was_forgotten_is_not_in_memory() {
        let (file, content) = filled(300_000);
        assert_eq!(forget(&file, 300_000), Ok(true));
        assert!(cachestat::cached(&file, 0..300_000).map_or(true, |cached| cached == 0));
        let mut buffer = vec![0; 300_000];
        assert_eq!(read_full(&file, &mut buffer, 0), Ok(300_000));
        assert!(buffer == content);
    }

    #[test]
    fn a_file_cut_short_meanwhile_ends_where_it_ends() {
        let (file, content) = filled(LARGE as usize);
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let once = Once::begin(file.as_fd(), 0..LARGE);
        file.set_len(300_000).unwrap();
        let mut buffer = Aligned::take(1 << 20);
        assert_eq!(once.read(buffer.bytes_mut(), 0), Ok(300_000));
        assert!(buffer.bytes()[..300_000] == content[..300_000]);
        assert_eq!(once.read(buffer.bytes_mut(), 1 << 20), Ok(0));
    }

    #[test]
    fn pages_are_dropped_only_by_kernels_that_look_at_them_first() {
        for release in ["6.16.0", "6.18.44-fc-v657", "7.0-rc1", "6.16-rc1"] {
            assert!(drops_only_clean(release.as_bytes()), "{release}");
        }
        for release in ["6.15.9", "6.14.0-37-generic", "5.19", "6", "", "linux", "6.x"] {
            assert!(!drops_only_clean(release.as_bytes()), "{release}");
        }
    }
}

//! The hash of a file as its device returns it, not as the page cache has it.
//!
//! After a failed write the pages stay in memory, clean, with data that never reached the device. A buffered read
//! returns these pages and proves nothing. So dirty pages are written out and clean pages dropped. If pages remain (a
//! running program maps them), the file is read by direct I/O. A filesystem without direct I/O is read through the
//! cache.

use super::file::Hashed;
use super::limits::is_hashed;
use super::stream::StreamHash;
use crate::fs::direct_io::{ALIGN, Aligned, open_direct, read_once};
use crate::fs::sparse::{self, Segment};
use crate::fs::status::Status;
use crate::monitor::Monitor;
use crate::sys::{cachestat, sync_file_range};
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, Result, pread};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How much is read at once: a multiple of [`ALIGN`].
const BUFFER: usize = 1 << 20;
/// Files of at least this size, in bytes, are worth another open.
const LARGE: u64 = 1 << 20;

/// Hashes the first `size` bytes of a file from its device.
///
/// # Errors
/// `CANCELED` when the monitor asks to stop; `IO` also if dirty pages of the file could not be written.
pub(crate) fn on_disk(fd: BorrowedFd<'_>, size: u64, monitor: &dyn Monitor) -> Result<Hashed> {
    let content = Content::without_cache(fd, size)?;
    if !is_hashed(fd, &Status::of(fd)?)? {
        return Ok(Hashed { hash: None, read: 0 });
    }
    let mut hash = StreamHash::default();
    let mut read = 0;
    let whole = usize::try_from(size).unwrap_or(BUFFER).min(BUFFER).next_multiple_of(ALIGN);
    let mut buffer = Aligned::take(whole);
    for segment in sparse::of(fd, size) {
        match segment? {
            Segment::Hole { length, .. } => hash.append_hole(length, monitor)?,
            Segment::Data { offset, length } => {
                let end = offset + length;
                // Direct I/O begins at a multiple of the alignment. Bytes before the data are read and skipped.
                let mut at = offset - offset % ALIGN as u64;
                while at < end {
                    if monitor.is_cancelled() {
                        return Err(Errno::CANCELED);
                    }
                    let wanted = (end - at).next_multiple_of(ALIGN as u64).min(whole as u64) as usize;
                    let got = content.read(&mut buffer.bytes_mut()[..wanted], at)?;
                    let from = offset.saturating_sub(at) as usize;
                    let to = got.min(usize::try_from(end - at).unwrap_or(usize::MAX));
                    if to > from {
                        hash.append(&buffer.bytes()[from..to]);
                        read += (to - from) as u64;
                    }
                    if got < wanted {
                        break;
                    }
                    at += got as u64;
                }
            }
        }
    }
    Ok(Hashed { hash: Some(hash.finish()), read })
}

/// A file that is read from its device, if possible.
#[derive(Debug)]
pub(super) struct Content<'a> {
    file: BorrowedFd<'a>,
    direct: Option<OwnedFd>,
}

impl<'a> Content<'a> {
    /// Prepares to read a file from front to back: with the kernel's readahead if none of it is in memory. For one
    /// thread, this is the fastest way.
    pub(super) fn without_cache(file: BorrowedFd<'a>, size: u64) -> Result<Self> {
        Self::prepare(file, size, || None)
    }

    /// Prepares to read a file in large pieces, next to other threads that do the same: by direct I/O if none of it is
    /// in memory, which takes the least time of the processors.
    pub(super) fn in_pieces(file: BorrowedFd<'a>, size: u64) -> Result<Self> {
        Self::prepare(file, size, || if size >= LARGE { open_direct(file) } else { None })
    }

    fn prepare(file: BorrowedFd<'a>, size: u64, if_cold: impl Fn() -> Option<OwnedFd>) -> Result<Self> {
        let is_cold = || cachestat::cached(file, 0..size).is_ok_and(|cached| cached == 0);
        if is_cold() {
            return Ok(Content { file, direct: if_cold() });
        }
        match sync_file_range::write_and_wait(file) {
            Err(Errno::NOSYS | Errno::INVAL | Errno::SPIPE | Errno::PERM) => rustix::fs::fdatasync(file)?,
            result => result?,
        }
        // This is advice: mapped pages stay.
        let _ = fadvise(file, 0, None, Advice::DontNeed);
        Ok(Content { file, direct: if is_cold() { None } else { open_direct(file) } })
    }

    /// Reads until the buffer is full or the file ends.
    pub(super) fn read(&self, buffer: &mut [u8], at: u64) -> Result<usize> {
        let Some(direct) = &self.direct else { return read_once(self.file, buffer, at) };
        let mut done = 0;
        while done < buffer.len() {
            match pread(direct.as_fd(), &mut buffer[done..], at + done as u64) {
                Ok(now) => {
                    done += now;
                    // The end of the file.
                    if now == 0 || !now.is_multiple_of(ALIGN) {
                        return Ok(done);
                    }
                }
                Err(Errno::INTR) => {}
                // Direct I/O is not supported on this filesystem or range.
                Err(Errno::INVAL | Errno::OPNOTSUPP) => {
                    return read_once(self.file, &mut buffer[done..], at + done as u64).map(|more| done + more);
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    fn check(file: &File, size: u64) {
        let plain = super::super::file(file, size, &Silent).unwrap();
        for _ in 0..2 {
            assert_eq!(on_disk(file.as_fd(), size, &Silent).unwrap().hash, plain.hash, "{size}");
        }
    }

    #[test]
    fn it_is_the_hash_of_the_content_whatever_its_size_and_holes() {
        for size in [0, 1, 4095, 4096, 4097, 70_000, (1 << 20) - 1, (1 << 20) + 1, 3 << 20] {
            let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
            let content: Vec<u8> = (0..size).map(|number| (number / 7) as u8).collect();
            file.write_all_at(&content, 0).unwrap();
            check(&file, size);
        }
        let sparse = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        sparse.write_all_at(&[1; 5000], 1_000_001).unwrap();
        sparse.write_all_at(&[2; 3], 4_000_000).unwrap();
        sparse.set_len(5_000_000).unwrap();
        check(&sparse, 5_000_000);
    }

    #[test]
    fn a_mapped_file_is_read_by_direct_io_where_there_is_any() {
        let path = env!("CARGO_MANIFEST_DIR");
        let file = tempfile::tempfile_in(path).unwrap();
        file.write_all_at(&[3; 300_001], 0).unwrap();
        let direct = Content { file: file.as_fd(), direct: open_direct(file.as_fd()) };
        file.sync_all().unwrap();
        let mut buffer = Aligned::take(512 << 10);
        assert_eq!(direct.read(buffer.bytes_mut(), 0), Ok(300_001));
        assert!(buffer.bytes()[..300_001].iter().all(|byte| *byte == 3));
        assert_eq!(direct.read(buffer.bytes_mut(), 1 << 20), Ok(0));
    }
}

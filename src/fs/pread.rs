//! Complete reads and writes at an offset: partial and interrupted calls are continued. Also prefetching.
//!
//! The file position is neither used nor moved, so threads can share a descriptor.

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, Result, pread, pwrite};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::AsFd;

/// Reads from the offset `at` until the buffer is full or the file ends (pread(2)). Returns the number of bytes.
pub(crate) fn read_full(fd: impl AsFd, buffer: &mut [u8], at: u64) -> Result<usize> {
    repeat(buffer.len(), |done| pread(&fd, &mut buffer[done..], at + done as u64))
}

/// Fills the buffer from the offset `at`.
///
/// # Errors
/// `STALE` if the file ends earlier: it has become shorter.
pub(crate) fn read_exact(fd: impl AsFd, buffer: &mut [u8], at: u64) -> Result<()> {
    if read_full(fd, buffer, at)? == buffer.len() { Ok(()) } else { Err(Errno::STALE) }
}

/// Writes all of these bytes at the offset `at` (pwrite(2)).
///
/// # Errors
/// `NOSPC` if the kernel accepts no more bytes and reports no error.
pub(crate) fn write_all(fd: impl AsFd, bytes: &[u8], at: u64) -> Result<()> {
    write_by(bytes.len(), |done| pwrite(&fd, &bytes[done..], at + done as u64))
}

/// Writes zeros into a range, for filesystems that cannot punch holes.
pub(crate) fn write_zeros(fd: impl AsFd, range: Range<u64>) -> Result<()> {
    let zeros = vec![0; (range.end - range.start).min(1 << 20) as usize];
    let mut at = range.start;
    while at < range.end {
        let length = (range.end - at).min(zeros.len() as u64);
        write_all(&fd, &zeros[..length as usize], at)?;
        at += length;
    }
    Ok(())
}

/// Makes the kernel read a range in the background (posix_fadvise(2)). This also helps before FIDEDUPERANGE, which
/// reads one page at a time to compare.
pub(crate) fn prefetch(fd: impl AsFd, range: Range<u64>) {
    /// Requests of this size are read completely. The kernel shortens longer ones.
    const STEP: u64 = 128 << 10;
    let mut at = range.start;
    while at < range.end {
        let step = STEP.min(range.end - at);
        if fadvise(&fd, at, NonZeroU64::new(step), Advice::WillNeed).is_err() {
            // This is advice: without it reading only takes longer.
            return;
        }
        at += step;
    }
}

fn write_by(length: usize, call: impl FnMut(usize) -> Result<usize>) -> Result<()> {
    if repeat(length, call)? == length { Ok(()) } else { Err(Errno::NOSPC) }
}

/// Calls with the number of bytes done so far, until `length` bytes are done or a call does none. Returns that number.
pub(crate) fn repeat(length: usize, mut call: impl FnMut(usize) -> Result<usize>) -> Result<usize> {
    let mut done = 0;
    while done < length {
        match call(done) {
            Ok(0) => break,
            Ok(now) => done += now,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that returns these results in turn and records its arguments. A further call is a failure.
    fn script<'a>(results: &'a [Result<usize>], asked: &'a mut Vec<usize>) -> impl FnMut(usize) -> Result<usize> + 'a {
        let mut results = results.iter();
        move |done| {
            asked.push(done);
            *results.next().expect("one call too many")
        }
    }

    #[test]
    fn short_calls_are_gone_on_with_where_they_ended() {
        let mut asked = Vec::new();
        assert_eq!(repeat(10, script(&[Ok(3), Ok(1), Ok(6)], &mut asked)), Ok(10));
        assert_eq!(asked, [0, 3, 4]);
    }

    #[test]
    fn an_interrupted_call_is_made_again_and_an_error_is_given() {
        let mut asked = Vec::new();
        let results = [Err(Errno::INTR), Ok(4), Err(Errno::INTR), Err(Errno::INTR), Err(Errno::IO)];
        assert_eq!(repeat(10, script(&results, &mut asked)), Err(Errno::IO));
        assert_eq!(asked, [0, 0, 4, 4, 4]);
    }

    #[test]
    fn a_write_of_nothing_is_an_error_and_not_tried_for_ever() {
        let mut asked = Vec::new();
        assert_eq!(write_by(10, script(&[Ok(4), Ok(0)], &mut asked)), Err(Errno::NOSPC));
        assert_eq!(asked, [0, 4]);
        assert_eq!(write_by(0, script(&[], &mut asked)), Ok(()));
    }

    #[test]
    fn a_read_ends_where_the_file_ends_and_the_file_keeps_its_position() {
        let file = tempfile::tempfile().unwrap();
        write_all(&file, b"0123456789", 5).unwrap();
        let mut buffer = [0xff; 8];
        assert_eq!(read_full(&file, &mut buffer, 3), Ok(8));
        assert_eq!(&buffer, b"\0\x00012345");
        assert_eq!(read_full(&file, &mut buffer, 12), Ok(3));
        assert_eq!(&buffer[..3], b"789");
        assert_eq!(read_full(&file, &mut buffer, 15), Ok(0));
        assert_eq!(read_exact(&file, &mut buffer, 7), Ok(()));
        assert_eq!(read_exact(&file, &mut buffer, 8), Err(Errno::STALE));
        assert_eq!(rustix::fs::tell(&file), Ok(0));
    }

    #[test]
    fn ranges_of_any_length_can_be_asked_for_ahead_also_beyond_the_end() {
        let file = tempfile::tempfile().unwrap();
        write_all(&file, &[1; 5000], 0).unwrap();
        for range in [0..0, 0..5000, 100..(128 << 10) + 101, 1 << 40..(1 << 40) + 1] {
            prefetch(&file, range);
        }
        let (pipe, _end) = std::io::pipe().unwrap();
        prefetch(&pipe, 0..u64::MAX);
    }
}

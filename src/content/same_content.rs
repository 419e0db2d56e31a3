//! Compares two open files. Holes count as zeros and cost nothing: the work depends on the data of both files, not on
//! their size.

use crate::fs::pread::read_full;
use crate::fs::sparse::{self, Segment, Segments};
use crate::monitor::Monitor;
use rustix::io::{Errno, Result};
use std::os::fd::BorrowedFd;

/// How much of each file is read at once.
const BUFFER: usize = 256 << 10;

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compared {
    /// Whether both files have the same content.
    pub(crate) is_equal: bool,
    /// Bytes read from both files.
    pub(crate) read: u64,
}

/// Compares the first `size` bytes of two files, up to the first difference.
///
/// # Errors
/// `CANCELED` when the monitor asks to stop.
pub(crate) fn compare(a: BorrowedFd<'_>, b: BorrowedFd<'_>, size: u64, monitor: &dyn Monitor) -> Result<Compared> {
    let (mut one, mut other) = (Side::of(a, size), Side::of(b, size));
    let length = BUFFER.min(usize::try_from(size).unwrap_or(BUFFER));
    let (mut left, mut right) = (vec![0; length], vec![0; length]);
    let mut found = Compared { is_equal: true, read: 0 };
    let mut at = 0;
    while at < size {
        if monitor.is_cancelled() {
            return Err(Errno::CANCELED);
        }
        let ends = (one.segment(at)?, other.segment(at)?);
        let end = ends.0.end.min(ends.1.end).min(size);
        if !ends.0.is_data && !ends.1.is_data {
            at = end;
            continue;
        }
        let now = (end - at).min(length as u64) as usize;
        for (side, fd, buffer) in [(ends.0, a, &mut left), (ends.1, b, &mut right)] {
            let got = if side.is_data { read_full(fd, &mut buffer[..now], at)? } else { 0 };
            // Holes, and the range after the end of a file that has become shorter.
            buffer[got..now].fill(0);
            found.read += got as u64;
        }
        if left[..now] != right[..now] {
            found.is_equal = false;
            return Ok(found);
        }
        at += now as u64;
    }
    Ok(found)
}

/// The current segment of a file.
#[derive(Clone, Copy)]
struct Present {
    end: u64,
    is_data: bool,
}

/// One of the files.
struct Side<'a> {
    segments: Segments<'a>,
    present: Present,
}

impl<'a> Side<'a> {
    fn of(fd: BorrowedFd<'a>, size: u64) -> Side<'a> {
        Side { segments: sparse::of(fd, size), present: Present { end: 0, is_data: false } }
    }

    /// The segment that contains an offset. Offsets must not decrease.
    fn segment(&mut self, at: u64) -> Result<Present> {
        while self.present.end <= at {
            self.present = match self.segments.next().transpose()? {
                Some(Segment::Data { offset, length }) => Present { end: offset + length, is_data: true },
                Some(Segment::Hole { offset, length }) => Present { end: offset + length, is_data: false },
                None => Present { end: u64::MAX, is_data: false },
            };
        }
        Ok(self.present)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;
    use std::fs::File;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileExt as _;

    fn file(size: u64, data: &[(u64, u8)]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        data.iter().for_each(|(at, byte)| file.write_all_at(&[*byte; 5000], *at).unwrap());
        file
    }

    fn is_equal(a: &File, b: &File, size: u64) -> bool {
        compare(a.as_fd(), b.as_fd(), size, &Silent).unwrap().is_equal
    }

    #[test]
    fn files_of_any_size_are_compared_by_their_data() {
        let size = 1 << 42;
        let a = file(size, &[(0, 7), (1 << 40, 8)]);
        assert!(is_equal(&a, &file(size, &[(0, 7), (1 << 40, 8)]), size));
        assert!(!is_equal(&a, &file(size, &[(0, 7), (1 << 40, 9)]), size));
        assert!(!is_equal(&a, &file(size, &[(0, 7)]), size));
        assert!(!is_equal(&file(size, &[(0, 7)]), &a, size));
    }

    #[test]
    fn zeros_that_were_written_read_as_holes_do() {
        let (a, b) = (file(1 << 20, &[(8192, 0), (300_000, 5)]), file(1 << 20, &[(300_000, 5)]));
        assert!(is_equal(&a, &b, 1 << 20) && is_equal(&b, &a, 1 << 20));
        assert!(is_equal(&file(0, &[]), &file(0, &[]), 0));
    }
}

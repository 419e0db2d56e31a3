//! Data and holes of a file, by `SEEK_DATA` and `SEEK_HOLE` (lseek(2)).

use rustix::fs::{SeekFrom, seek};
use rustix::io::{Errno, Result};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Bytes that were written.
    Data {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        length: u64,
    },
    /// A hole, or a range that was allocated and never written: it reads as zeros.
    Hole {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        length: u64,
    },
}

/// The segments of the first `size` bytes, in order, without gaps. A filesystem that knows no holes has one segment.
pub fn of(fd: BorrowedFd<'_>, size: u64) -> Segments<'_> {
    Segments { fd, size, at: 0 }
}

/// The segments of a range, in order, without gaps.
pub fn within(fd: BorrowedFd<'_>, range: Range<u64>) -> Segments<'_> {
    Segments { fd, size: range.end, at: range.start }
}

/// Bytes in holes and never-written ranges among the first `size` bytes.
pub fn holes(fd: impl AsFd, size: u64) -> Result<u64> {
    let mut holes = 0;
    for segment in of(fd.as_fd(), size) {
        if let Segment::Hole { length, .. } = segment? {
            holes += length;
        }
    }
    Ok(holes)
}

/// Iterator of [`of`].
pub struct Segments<'a> {
    fd: BorrowedFd<'a>,
    size: u64,
    at: u64,
}

impl Iterator for Segments<'_> {
    type Item = Result<Segment>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.size {
            return None;
        }
        let segment = self.find();
        match segment {
            Ok(Segment::Data { length, .. } | Segment::Hole { length, .. }) => self.at += length,
            Err(_) => self.at = self.size,
        }
        Some(segment)
    }
}

impl Segments<'_> {
    fn find(&mut self) -> Result<Segment> {
        let offset = self.at;
        let data = match seek(self.fd, SeekFrom::Data(offset)) {
            Ok(data) => data.min(self.size),
            // Nothing but a hole from here on, or the file shrank.
            Err(Errno::NXIO) => self.size,
            Err(Errno::INVAL) => return Ok(Segment::Data { offset, length: self.size - offset }),
            Err(error) => return Err(error),
        };
        if data > offset {
            return Ok(Segment::Hole { offset, length: data - offset });
        }
        let end = match seek(self.fd, SeekFrom::Hole(offset)) {
            Ok(end) => end.clamp(offset + 1, self.size),
            Err(Errno::NXIO) => self.size,
            Err(error) => return Err(error),
        };
        Ok(Segment::Data { offset, length: end - offset })
    }
}

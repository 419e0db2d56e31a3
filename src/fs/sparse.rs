//! Data and holes of a file, by `SEEK_DATA` and `SEEK_HOLE` (lseek(2)).

use rustix::fs::{SeekFrom, seek};
use rustix::io::{Errno, Result};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Written data.
    Data {
        /// The offset.
        offset: u64,
        /// The length.
        length: u64,
    },
    /// A hole, or a range that was reserved and never written. It reads as zeros.
    Hole {
        /// The offset.
        offset: u64,
        /// The length.
        length: u64,
    },
}

/// The segments of the first `size` bytes, in order, without gaps. On a filesystem without holes there is one segment.
pub fn of(fd: BorrowedFd<'_>, size: u64) -> Segments<'_> {
    within(fd, 0..size)
}

/// The segments of a range, in order, without gaps.
pub fn within(fd: BorrowedFd<'_>, range: Range<u64>) -> Segments<'_> {
    Segments { fd, size: range.end, at: range.start, is_behind_data: false }
}

/// Bytes in holes and never-written ranges of the first `size` bytes.
pub fn holes(fd: impl AsFd, size: u64) -> Result<u64> {
    let mut holes = 0;
    for segment in of(fd.as_fd(), size) {
        if let Segment::Hole { length, .. } = segment? {
            holes += length;
        }
    }
    Ok(holes)
}

/// The iterator of [`of`].
pub struct Segments<'a> {
    fd: BorrowedFd<'a>,
    size: u64,
    at: u64,
    /// The last segment was data, so the next is a hole.
    is_behind_data: bool,
}

impl Iterator for Segments<'_> {
    type Item = Result<Segment>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.size {
            return None;
        }
        let segment = self.look();
        self.is_behind_data = matches!(segment, Ok(Segment::Data { .. }));
        match segment {
            Ok(Segment::Data { length, .. } | Segment::Hole { length, .. }) => self.at += length,
            Err(_) => self.at = self.size,
        }
        Some(segment)
    }
}

impl Segments<'_> {
    /// First looks for the end of the likely kind of segment: a file without holes takes one call, other files one per
    /// segment.
    fn look(&self) -> Result<Segment> {
        let offset = self.at;
        if !self.is_behind_data
            && let Some(segment) = self.data(offset)?
        {
            return Ok(segment);
        }
        let data = match seek(self.fd, SeekFrom::Data(offset)) {
            Ok(data) => data.min(self.size),
            // The rest is a hole, or the file shrank.
            Err(Errno::NXIO) => self.size,
            Err(Errno::INVAL) => return Ok(Segment::Data { offset, length: self.size - offset }),
            Err(error) => return Err(error),
        };
        if data > offset {
            return Ok(Segment::Hole { offset, length: data - offset });
        }
        // The file changes: data has just become a hole.
        Ok(self.data(offset)?.unwrap_or(Segment::Data { offset, length: 1 }))
    }

    /// The end of the data at an offset; `None` in a hole or after the end.
    fn data(&self, offset: u64) -> Result<Option<Segment>> {
        match seek(self.fd, SeekFrom::Hole(offset)) {
            Ok(end) if end > offset => Ok(Some(Segment::Data { offset, length: end.min(self.size) - offset })),
            Ok(_) | Err(Errno::NXIO) => Ok(None),
            Err(Errno::INVAL) => Ok(Some(Segment::Data { offset, length: self.size - offset })),
            Err(error) => Err(error),
        }
    }
}

//! The data of a file, some ranges at a time, and the kernel told to read those of the next time meanwhile.
//!
//! Readahead does not see across holes, so a sparse file on a cold device would be waited for at each of its ranges.

use crate::fs::pread;
use crate::fs::sparse::{self, Segment, Segments};
use rustix::io::Result;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// How many ranges go together.
const MOST: usize = 64;
/// Longer ranges have the kernel's own readahead.
const SHORT: u64 = 1 << 20;

/// Some ranges of data.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    /// In order, none of them empty.
    pub(super) data: Vec<Range<u64>>,
    /// Bytes in the holes before, between and behind them.
    pub(super) holes: u64,
}

impl Batch {
    /// Whether these are short ranges between holes, all of them asked for ahead.
    pub(super) fn is_scattered(&self) -> bool {
        self.data.len() > 1 && self.data.iter().all(is_short)
    }
}

fn is_short(range: &Range<u64>) -> bool {
    range.end - range.start < SHORT
}

/// Iterator of all that a file has.
pub(super) struct Batches<'a> {
    source: BorrowedFd<'a>,
    segments: Segments<'a>,
    ahead: Option<Result<Batch>>,
}

impl<'a> Batches<'a> {
    /// Of its first `size` bytes.
    pub(super) fn of(source: BorrowedFd<'a>, size: u64) -> Self {
        let mut batches = Batches { source, segments: sparse::of(source, size), ahead: None };
        batches.ahead = batches.gather();
        batches
    }

    fn gather(&mut self) -> Option<Result<Batch>> {
        let mut batch = Batch::default();
        while batch.data.len() < MOST {
            match self.segments.next() {
                None if batch == Batch::default() => return None,
                None => break,
                Some(Err(errno)) => return Some(Err(errno)),
                Some(Ok(Segment::Hole { length, .. })) => batch.holes += length,
                Some(Ok(Segment::Data { offset, length })) => batch.data.push(offset..offset + length),
            }
        }
        if batch.data.len() > 1 {
            for range in batch.data.iter().filter(|range| is_short(range)) {
                pread::prefetch(self.source, range.clone());
            }
        }
        Some(Ok(batch))
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.ahead.take()?;
        if batch.is_ok() {
            self.ahead = self.gather();
        }
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileExt as _;

    fn file(ranges: u64, size: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        for n in 0..ranges {
            file.write_all_at(&[7; 4096], n * 65536 + 32768).unwrap();
        }
        file
    }

    fn all(file: &File, size: u64) -> Vec<Batch> {
        Batches::of(file.as_fd(), size).map(std::result::Result::unwrap).collect()
    }

    #[test]
    fn batches_bring_every_byte_once() {
        for ranges in [0, 1, 2, 63, 64, 65, 200] {
            let size = ranges * 65536 + 40000;
            let batches = all(&file(ranges, size), size);
            let data: u64 = batches.iter().flat_map(|batch| &batch.data).map(|range| range.end - range.start).sum();
            assert_eq!(data + batches.iter().map(|batch| batch.holes).sum::<u64>(), size);
            assert!(batches.iter().all(|batch| batch.data.len() <= MOST));
            let starts: Vec<_> = batches.iter().flat_map(|batch| &batch.data).map(|range| range.start).collect();
            assert!(starts.is_sorted());
        }
    }

    #[test]
    fn a_file_with_nothing_in_it_has_no_batch() {
        assert_eq!(all(&file(0, 0), 0), []);
    }
}

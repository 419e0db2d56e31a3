//! The data ranges of a file in batches. While one batch is copied, the kernel prefetches the next.
//!
//! The kernel's readahead stops at holes. Without prefetching, a sparse file on a cold device waits at each range.

use crate::fs::pread;
use crate::fs::sparse::{self, Segment, Segments};
use rustix::io::Result;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// The number of ranges in a batch.
const MOST: usize = 64;
/// Longer ranges are left to the kernel's readahead.
const SHORT: u64 = 1 << 20;

/// A batch of data ranges.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    /// In order and not empty.
    pub(super) data: Vec<Range<u64>>,
    /// Bytes in the holes before, between and behind them.
    pub(super) holes: u64,
}

impl Batch {
    /// Whether these are short ranges between holes, all prefetched.
    pub(super) fn is_scattered(&self) -> bool {
        self.data.len() > 1 && self.data.iter().all(is_short)
    }
}

fn is_short(range: &Range<u64>) -> bool {
    range.end - range.start < SHORT
}

/// An iterator over all batches of a file.
pub(super) struct Batches<'a> {
    source: BorrowedFd<'a>,
    segments: Segments<'a>,
    next: Option<Result<Batch>>,
}

impl<'a> Batches<'a> {
    /// The batches of the first `size` bytes.
    pub(super) fn of(source: BorrowedFd<'a>, size: u64) -> Self {
        let mut batches = Batches { source, segments: sparse::of(source, size), next: None };
        batches.next = batches.gather();
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
        let batch = self.next.take()?;
        if batch.is_ok() {
            self.next = self.gather();
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

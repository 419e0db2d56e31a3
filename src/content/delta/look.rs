//! A file that is compared with its last version, and where it has data.

use super::list::{List, NewList};
use crate::content::hash::tree::GRAIN;
use crate::extents::ranges::{self, Bytes};
use crate::fs::direct_io::Once;
use crate::fs::pread::read_full;
use crate::fs::sparse::{self, Segment};
use crate::monitor::Monitor;
use crate::util::mutex::lock;
use rustix::fs::{SeekFrom, seek};
use rustix::io::{Errno, Result};
use std::os::fd::BorrowedFd;
use std::sync::Mutex;

/// The earlier version of a file.
#[derive(Clone, Copy, Debug)]
pub struct Base<'a> {
    /// Open for reading.
    pub file: BorrowedFd<'a>,
    /// The size in bytes.
    pub size: u64,
    /// The hashes of the base. With them most of it need not be read.
    pub list: Option<&'a List>,
}

/// How to compare files.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The unit of writing and sharing, in bytes: a power of two, at most a window.
    pub block: u64,
    /// Whether to hash the content.
    pub hashed: bool,
    /// The number of threads that read.
    pub threads: usize,
    /// Receives the progress.
    pub monitor: &'a dyn Monitor,
}

/// The bytes that each value covers: those of the file's own list, otherwise those of the base's list.
pub(super) fn grain(list: Option<&NewList>, base: Option<&Base<'_>>) -> usize {
    list.map_or(base.and_then(|base| base.list).map_or(GRAIN, List::grain), NewList::grain)
}

/// A file that is compared with its base.
pub(super) struct Look<'a> {
    pub(super) file: BorrowedFd<'a>,
    pub(super) size: u64,
    pub(super) base: Option<&'a Base<'a>>,
    /// The bytes that each value of the file's own list covers.
    pub(super) grain: usize,
    /// Reads the parts that nobody reads again.
    pub(super) once: &'a Once<'a>,
    /// Whether the kernel will compare the equal parts again.
    pub(super) compared_again: bool,
    /// The last range of data that was found. Without it, each window would make the kernel search the following
    /// extents for the end of the data again, while the other threads wait.
    pub(super) dense: Mutex<Bytes>,
    pub(super) options: &'a Options<'a>,
}

impl Look<'_> {
    /// Reads as much as the file has, and fills the rest with zeros.
    pub(super) fn read(&self, bytes: &mut [u8], offset: u64, stays: bool) -> Result<usize> {
        let got = match stays {
            true => read_full(self.file, bytes, offset)?,
            false => self.once.read(bytes, offset)?,
        };
        bytes[got..].fill(0);
        Ok(got)
    }

    /// The first offset at or after the given one at which the file or the base has data.
    pub(super) fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        let dense = lock(&self.dense).clone();
        if dense.contains(&offset) {
            return Ok(Some(offset));
        }
        let data = |file: BorrowedFd<'_>| match seek(file, SeekFrom::Data(offset)) {
            Ok(data) => Ok(Some(data)),
            Err(Errno::NXIO) => Ok(None),
            // The filesystem does not report holes.
            Err(Errno::INVAL) => Ok(Some(offset)),
            Err(error) => Err(error),
        };
        let own = data(self.file)?.filter(|at| *at < self.size);
        let base = match self.base {
            Some(base) if own != Some(offset) => data(base.file)?.filter(|at| *at < self.size),
            _ => None,
        };
        Ok(own.into_iter().chain(base).min())
    }

    /// The data in a range, in whole blocks.
    pub(super) fn data(&self, range: &Bytes) -> Result<Vec<Bytes>> {
        let dense = lock(&self.dense).clone();
        if dense.start <= range.start && range.end <= dense.end {
            return Ok(vec![range.clone()]);
        }
        let block = self.options.block;
        let mut data = Vec::new();
        for segment in sparse::within(self.file, range.start..self.size) {
            let end = match segment? {
                Segment::Hole { offset, length } => offset + length,
                Segment::Data { offset, length } => {
                    let end = offset + length;
                    *lock(&self.dense) = offset..end;
                    if offset < range.end {
                        ranges::push(&mut data, offset / block * block..end.next_multiple_of(block).min(range.end));
                    }
                    end
                }
            };
            if end >= range.end {
                break;
            }
        }
        Ok(data)
    }

    /// Whether the data of a window must stay in memory for the kernel: if more than a little of it may be shared.
    /// Other data is only hashed.
    pub(super) fn stays(&self, data: &[Bytes], unknown: &[Bytes]) -> bool {
        self.compared_again && ranges::length(unknown) > ranges::length(data) / 8
    }
}

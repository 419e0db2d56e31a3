//! The content of a small file in memory, so that it is read only once whatever happens to it then.

use super::types::{Copied, CopyError};
use crate::content::hash;
use crate::fs::pread;
use crate::fs::sparse::{self, Segment};
use crate::monitor::{Amount, Monitor};
use rustix::io::{Errno, Result};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

/// A file's content, and the ranges that have data.
#[derive(Debug)]
pub struct Held {
    bytes: Vec<u8>,
    data: Vec<Range<usize>>,
}

impl Held {
    /// Reads the first `size` bytes of a file, or as many as it has.
    ///
    /// # Errors
    /// Errors of the kernel; `FBIG` if the size does not fit into memory.
    pub fn read(source: BorrowedFd<'_>, size: u64) -> Result<Held> {
        let mut bytes = vec![0; usize::try_from(size).map_err(|_| Errno::FBIG)?];
        let mut data = Vec::new();
        for segment in sparse::of(source, size) {
            let Segment::Data { offset, length } = segment? else { continue };
            let range = offset as usize..(offset + length) as usize;
            let buffer = bytes.get_mut(range.clone()).ok_or(Errno::STALE)?;
            let got = pread::read_full(source, buffer, offset)?;
            data.push(range.start..range.start + got);
            if got < range.len() {
                bytes.truncate(range.start + got);
                break;
            }
        }
        Ok(Held { bytes, data })
    }

    /// BLAKE3 of the content.
    pub fn hash(&self) -> [u8; 32] {
        hash::bytes(&self.bytes)
    }

    /// Bytes read.
    pub fn data(&self) -> u64 {
        self.data.iter().map(|range| range.len() as u64).sum()
    }

    /// Bytes in holes.
    pub fn holes(&self) -> u64 {
        self.bytes.len() as u64 - self.data()
    }

    /// Writes the content into the empty file `destination` and keeps its holes.
    ///
    /// # Errors
    /// Errors of the destination.
    pub fn write(
        &self,
        destination: impl AsFd,
        hashed: bool,
        monitor: &dyn Monitor,
    ) -> std::result::Result<Copied, CopyError> {
        let length = self.bytes.len() as u64;
        if self.data() < length {
            // No write sets the size if the file ends in a hole. Setting it is cheapest before the first write.
            rustix::fs::ftruncate(&destination, length).map_err(CopyError::Destination)?;
        }
        for range in &self.data {
            let bytes = self.bytes.get(range.clone()).unwrap_or_default();
            pread::write_all(&destination, bytes, range.start as u64).map_err(CopyError::Destination)?;
        }
        monitor.advance(Amount { files: 0, bytes: length });
        let (data, holes, hash) = (self.data(), self.holes(), hashed.then(|| self.hash()));
        Ok(Copied { data, holes, read: data, hash, ..Copied::by_reads_and_writes() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;
    use std::fs::File;
    use std::io::Read as _;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    fn sparse() -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 5000], 1 << 20).unwrap();
        file.set_len(3 << 20).unwrap();
        file
    }

    #[test]
    fn what_is_held_is_written_with_its_holes() {
        let held = Held::read(sparse().as_fd(), 3 << 20).unwrap();
        assert_eq!(held.data() + held.holes(), 3 << 20);
        let copy = tempfile::tempfile().unwrap();
        let copied = held.write(&copy, true, &Silent).unwrap();
        let (mut a, mut b) = (Vec::new(), Vec::new());
        sparse().read_to_end(&mut a).unwrap();
        (&copy).read_to_end(&mut b).unwrap();
        assert!(a == b);
        assert_eq!(copied.hash, Some(*blake3::hash(&a).as_bytes()));
        assert_eq!(copy.metadata().unwrap().blocks(), sparse().metadata().unwrap().blocks());
    }

    #[test]
    fn a_file_that_is_shorter_than_it_was_is_held_as_it_is() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 5000], 0).unwrap();
        let held = Held::read(file.as_fd(), 5000).unwrap();
        assert_eq!((held.data(), held.holes(), held.hash()), (5000, 0, *blake3::hash(&[7; 5000]).as_bytes()));
    }
}

//! The hash of a file. Holes count as the zeros that they read as, and are not read.

use super::limits::{FREE_HOLES, is_proportionate};
use super::stream::StreamHash;
use crate::fs::pread;
use crate::fs::sparse::{self, Segment};
use crate::monitor::Monitor;
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, BorrowedFd};

/// How much is read at once. On cold files every way of reading is as fast as the device.
const BUFFER: usize = 256 * 1024;

/// The result of hashing a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hashed {
    /// The hash of `size` bytes, or of as many as the file has; `None` if its holes are out of proportion to its data.
    pub hash: Option<[u8; 32]>,
    /// Bytes read from the file.
    pub read: u64,
}

/// Hashes the first `size` bytes of a file, unless its holes are out of proportion to its data.
///
/// # Errors
/// `CANCELED` when the monitor asks to stop.
pub fn file(fd: impl AsFd, size: u64, monitor: &dyn Monitor) -> Result<Hashed> {
    hash(fd.as_fd(), size, true, monitor)
}

/// Hashes the first `size` bytes of a file, whatever its holes: for a hash that the user asked for. Also returns the
/// bytes read.
///
/// # Errors
/// Like [`file()`].
pub fn any_file(fd: impl AsFd, size: u64, monitor: &dyn Monitor) -> Result<([u8; 32], u64)> {
    let hashed = hash(fd.as_fd(), size, false, monitor)?;
    Ok((hashed.hash.ok_or(Errno::OVERFLOW)?, hashed.read))
}

fn hash(fd: BorrowedFd<'_>, size: u64, is_limited: bool, monitor: &dyn Monitor) -> Result<Hashed> {
    let mut hash = StreamHash::default();
    let mut read = 0;
    let (mut holes, mut is_checked) = (0, !is_limited);
    let mut buffer = vec![0; BUFFER.min(usize::try_from(size).unwrap_or(BUFFER))];
    for segment in sparse::of(fd, size) {
        match segment? {
            Segment::Hole { length, .. } => {
                holes += length;
                if holes > FREE_HOLES && !is_checked {
                    is_checked = true;
                    if !is_proportionate(size, sparse::holes(fd, size)?) {
                        return Ok(Hashed { hash: None, read });
                    }
                }
                hash.append_hole(length, monitor)?;
            }
            Segment::Data { offset, length } => {
                let mut at = offset;
                while at < offset + length {
                    if monitor.is_cancelled() {
                        return Err(Errno::CANCELED);
                    }
                    let want = buffer.len().min((offset + length - at) as usize);
                    let got = pread::read_full(fd, &mut buffer[..want], at)?;
                    if got == 0 {
                        break;
                    }
                    hash.append(&buffer[..got]);
                    at += got as u64;
                    read += got as u64;
                }
            }
        }
    }
    Ok(Hashed { hash: Some(hash.finish()), read })
}

#[cfg(test)]
mod tests {
    use super::super::limits::is_hashed;
    use super::*;
    use crate::fs::status::Status;
    use crate::monitor::Silent;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn a_file_of_little_but_holes_has_no_hash_and_costs_no_time() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 4096], 0).unwrap();
        file.set_len(1 << 42).unwrap();
        assert_eq!(super::file(&file, 1 << 42, &Silent).unwrap(), Hashed { hash: None, read: 4096 });
        assert!(!is_hashed(&file, &Status::of(&file).unwrap()).unwrap());
        file.set_len(FREE_HOLES).unwrap();
        assert!(super::file(&file, FREE_HOLES, &Silent).unwrap().hash.is_some());
        assert!(is_hashed(&file, &Status::of(&file).unwrap()).unwrap());
    }
}

//! BLAKE3 of a file's content: holes count as the zeros they read as, and cost no reading. And the beginning of a hash.
//!
//! BLAKE3 has no shortcut for zeros: each of its chunks is hashed with its own offset. So a file whose holes are out of
//! proportion to its data has no hash ([`is_proportionate`]): the cost of a file follows its data, never its size.

use crate::fs::pread;
use crate::fs::sparse::{self, Segment};
use crate::fs::status::Status;
use crate::monitor::Monitor;
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, BorrowedFd};

/// How much is read at once. On cold files every way of reading is as fast as the device.
const BUFFER: usize = 256 * 1024;

/// A file is hashed with holes up to this many bytes, whatever its data: no more work than its inode is.
const FREE_HOLES: u64 = 4 << 20;

/// And beyond that with so many bytes of holes for each byte of data.
const HOLES_PER_BYTE: u64 = 1024;

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// What hashing found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hashed {
    /// The hash of `size` bytes, or of as many as there were; `None`: the holes are out of proportion to the data.
    pub hash: Option<[u8; 32]>,
    /// Bytes read from the file.
    pub read: u64,
}

/// Whether a file of this size with so many bytes in holes is hashed.
pub fn is_proportionate(size: u64, holes: u64) -> bool {
    holes <= FREE_HOLES || holes - FREE_HOLES <= size.saturating_sub(holes).saturating_mul(HOLES_PER_BYTE)
}

/// Whether a file has so little on the disk for its size that it cannot be hashed, as its status shows.
pub fn is_hollow(status: &Status) -> bool {
    !is_proportionate(status.size, status.size.saturating_sub(status.allocated))
}

/// Whether an open file of this status is hashed. Only a file with large holes is asked where they are.
///
/// # Errors
/// Those of lseek(2).
pub fn is_hashed(fd: impl AsFd, status: &Status) -> Result<bool> {
    if status.size.saturating_sub(status.allocated) <= FREE_HOLES {
        return Ok(true);
    }
    Ok(is_proportionate(status.size, sparse::holes(fd, status.size)?))
}

/// Hashes the first `size` bytes of a file, unless its holes are out of proportion to its data.
///
/// # Errors
/// `CANCELED` when the monitor asks to stop.
pub fn file(fd: impl AsFd, size: u64, monitor: &dyn Monitor) -> Result<Hashed> {
    hash(fd.as_fd(), size, true, monitor)
}

/// Hashes the first `size` bytes of a file, whatever its holes: for a hash that the user asked for.
///
/// # Errors
/// As [`file`].
pub fn any_file(fd: impl AsFd, size: u64, monitor: &dyn Monitor) -> Result<([u8; 32], u64)> {
    let hashed = hash(fd.as_fd(), size, false, monitor)?;
    Ok((hashed.hash.ok_or(Errno::OVERFLOW)?, hashed.read))
}

fn hash(fd: BorrowedFd<'_>, size: u64, is_limited: bool, monitor: &dyn Monitor) -> Result<Hashed> {
    let mut hasher = blake3::Hasher::new();
    let mut read = 0;
    let (mut holes, mut is_known) = (0, !is_limited);
    let mut buffer = vec![0; BUFFER.min(usize::try_from(size).unwrap_or(BUFFER))];
    for segment in sparse::of(fd, size) {
        match segment? {
            Segment::Hole { length, .. } => {
                holes += length;
                if holes > FREE_HOLES && !is_known {
                    is_known = true;
                    if !is_proportionate(size, sparse::holes(fd, size)?) {
                        return Ok(Hashed { hash: None, read });
                    }
                }
                zeros(&mut hasher, length, monitor)?;
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
                    hasher.update(&buffer[..got]);
                    at += got as u64;
                    read += got as u64;
                }
            }
        }
    }
    Ok(Hashed { hash: Some(*hasher.finalize().as_bytes()), read })
}

/// Feeds a hole to a hasher.
pub fn zeros(hasher: &mut blake3::Hasher, mut length: u64, monitor: &dyn Monitor) -> Result<()> {
    while length > 0 {
        if monitor.is_cancelled() {
            return Err(Errno::CANCELED);
        }
        let now = length.min(ZEROS.len() as u64);
        hasher.update(&ZEROS[..now as usize]);
        length -= now;
    }
    Ok(())
}

/// The first eight bytes of a hash as a number, little-endian: enough where something else has the last word.
pub fn prefix(hash: &[u8; 32]) -> u64 {
    hash.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn the_limit_on_holes_grows_with_the_data() {
        assert!(is_proportionate(u64::MAX, FREE_HOLES) && is_proportionate(u64::MAX, u64::MAX / 2));
        assert!(is_proportionate(FREE_HOLES, FREE_HOLES) && !is_proportionate(FREE_HOLES + 1, FREE_HOLES + 1));
        let data = 1 << 30;
        assert!(is_proportionate(data + data * HOLES_PER_BYTE, data * HOLES_PER_BYTE));
        assert!(!is_proportionate(data + data * 2 * HOLES_PER_BYTE, data * 2 * HOLES_PER_BYTE));
    }

    #[test]
    fn a_prefix_is_the_same_number_on_every_machine() {
        assert_eq!(prefix(&std::array::from_fn(|at| at as u8 + 1)), 0x0807_0605_0403_0201);
    }
}

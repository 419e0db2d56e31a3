//! BLAKE3 of a file's content: holes count as the zeros they read as, and cost no reading. And the beginning of a hash.

use crate::copy::segments::{self, Segment};
use crate::monitor::Monitor;
use crate::positioned;
use rustix::io::{Errno, Result};
use std::os::fd::AsFd;

/// How much is read at once. On cold files every way of reading is as fast as the device.
const BUFFER: usize = 256 * 1024;

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// What hashing found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hashed {
    /// The hash of `size` bytes, or of as many as there were.
    pub hash: [u8; 32],
    /// Bytes read from the file.
    pub read: u64,
}

/// Hashes the first `size` bytes of a file.
///
/// # Errors
/// `CANCELED` when the monitor asks to stop.
pub fn file(fd: impl AsFd, size: u64, monitor: &dyn Monitor) -> Result<Hashed> {
    let fd = fd.as_fd();
    let mut hasher = blake3::Hasher::new();
    let mut read = 0;
    let mut buffer = vec![0; BUFFER.min(usize::try_from(size).unwrap_or(BUFFER))];
    for segment in segments::of(fd, size) {
        match segment? {
            Segment::Hole { length, .. } => zeros(&mut hasher, length, monitor)?,
            Segment::Data { offset, length } => {
                let mut at = offset;
                while at < offset + length {
                    if monitor.is_cancelled() {
                        return Err(Errno::CANCELED);
                    }
                    let want = buffer.len().min((offset + length - at) as usize);
                    let got = positioned::read_full(fd, &mut buffer[..want], at)?;
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
    Ok(Hashed { hash: *hasher.finalize().as_bytes(), read })
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

    #[test]
    fn a_prefix_is_the_same_number_on_every_machine() {
        assert_eq!(prefix(&std::array::from_fn(|at| at as u8 + 1)), 0x0807_0605_0403_0201);
    }
}

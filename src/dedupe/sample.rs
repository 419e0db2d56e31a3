//! Samples: enough of a file to distinguish it from most others of its size, read with few requests.
//!
//! A file of up to 64 KiB is read whole, so that the kernel's comparison finds it in memory. Of a larger file the head,
//! the tail and, beyond 1 MiB, some places inside are read, never more than 64 KiB.

use super::facts::short;
use crate::fs::pread::{prefetch, read_exact};
use rustix::fs::{Advice, SeekFrom, fadvise};
use rustix::io::{Errno, Result};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// The sample of a file up to this size is the whole file.
pub(super) const WHOLE: u64 = 64 << 10;

const HEAD: u64 = 16 << 10;
const TAIL: u64 = 4 << 10;
const INSIDE: u64 = 4 << 10;

/// The places that are read in a file of this size. They depend on nothing else: equal files have equal samples.
fn places(size: u64) -> Vec<Range<u64>> {
    if size <= WHOLE {
        return std::iter::once(0..size).collect();
    }
    let inside = match size {
        0..=0x10_0000 => 0,
        0x10_0001..=0x400_0000 => 4,
        _ => 8,
    };
    let aligned = |offset: u64| offset / INSIDE * INSIDE;
    let tail = aligned(size - TAIL);
    let head = std::iter::once(0..HEAD);
    let inner = (1..=inside).map(|n| aligned(size / (inside + 1) * n)).map(|start| start..start + INSIDE);
    head.chain(inner).chain(std::iter::once(tail..size)).collect()
}

/// Reads the samples of an open file. Returns their hash and the number of bytes read.
///
/// # Errors
/// `STALE` if the file is shorter than `size`.
pub(super) fn read(fd: BorrowedFd<'_>, size: u64, sparse: bool) -> Result<(NonZeroU64, u64)> {
    let mut places = places(size);
    if sparse {
        // A hole reads as zeros, and needs no reading.
        places.retain(|place| !is_hole(fd, place));
    }
    if size > WHOLE {
        // Only the requested places are read, and all requests are sent before waiting for the first.
        let _ = fadvise(fd, 0, None, Advice::Random);
        for place in &places {
            prefetch(fd, place.clone());
        }
    }
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; HEAD.max(size.min(WHOLE)) as usize];
    let mut bytes = 0;
    for place in places {
        let length = (place.end - place.start) as usize;
        let buffer = buffer.get_mut(..length).ok_or(Errno::INVAL)?;
        read_exact(fd, buffer, place.start)?;
        bytes += length as u64;
        // Zeros count like a hole.
        if buffer.iter().any(|byte| *byte != 0) {
            hasher.update(&place.start.to_le_bytes());
            hasher.update(buffer);
        }
    }
    if size > WHOLE {
        let _ = fadvise(fd, 0, None, Advice::Normal);
    }
    Ok((short(hasher.finalize().as_bytes()), bytes))
}

fn is_hole(fd: BorrowedFd<'_>, place: &Range<u64>) -> bool {
    match rustix::fs::seek(fd, SeekFrom::Data(place.start)) {
        Ok(data) => data >= place.end,
        Err(errno) => errno == Errno::NXIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    #[test]
    fn samples_are_within_the_file_and_never_more_than_64_kib() {
        for size in [1, 4096, WHOLE, WHOLE + 1, 100_000, (1 << 20) + 1, (64 << 20) + 1, 1 << 44] {
            let places = places(size);
            assert!(places.iter().map(|place| place.end - place.start).sum::<u64>() <= WHOLE, "{size}: {places:?}");
            assert!(places.windows(2).all(|two| two[0].end <= two[1].start), "{size}: {places:?}");
            assert_eq!((places[0].start, places[places.len() - 1].end), (0, size));
        }
    }

    #[test]
    fn a_hole_and_written_zeros_have_the_same_samples() {
        let size = 3 << 20;
        let (hole, zeros) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        hole.set_len(size).unwrap();
        (&zeros).write_all(&vec![0; size as usize]).unwrap();
        let of = |file: &std::fs::File, sparse| read(file.as_fd(), size, sparse).unwrap().0;
        assert_eq!(of(&hole, true), of(&zeros, false));
        let other = tempfile::tempfile().unwrap();
        (&other).write_all(&vec![1; size as usize]).unwrap();
        assert_ne!(of(&hole, true), of(&other, false));
        assert_eq!(read(other.as_fd(), size + 5000, false), Err(Errno::STALE));
    }
}

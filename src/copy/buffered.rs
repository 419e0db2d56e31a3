//! Copies content through a buffer, keeps holes, and hashes what passes by.

use super::segments::{self, Segment};
use crate::hash;
use crate::monitor::{Amount, Monitor};
use crate::positioned;
use rustix::io::Errno;
use std::os::fd::AsFd;

const BUFFER: usize = 1 << 20;

/// What a copy did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes of data read and written.
    pub data: u64,
    /// Bytes left as holes.
    pub holes: u64,
    /// BLAKE3 of the whole content, if asked for.
    pub hash: Option<[u8; 32]>,
}

/// Copies the first `size` bytes of `source` into the empty file `destination`.
///
/// The monitor hears of each buffer. A source that has become shorter gives a shorter copy; the caller compares its status before and after.
///
/// # Errors
/// Those of the kernel, of the side that failed; `CANCELED` when the monitor asks to stop.
pub fn copy(
    source: impl AsFd,
    destination: impl AsFd,
    size: u64,
    hashed: bool,
    monitor: &dyn Monitor,
) -> Result<Copied, CopyError> {
    let source = source.as_fd();
    let mut hasher = hashed.then(blake3::Hasher::new);
    let mut buffer = vec![0; BUFFER.min(usize::try_from(size).unwrap_or(BUFFER))];
    let mut copied = Copied::default();
    let mut end = 0;
    'segments: for segment in segments::of(source, size) {
        match segment.map_err(CopyError::Source)? {
            Segment::Hole { offset, length } => {
                if copied.holes == 0 {
                    // XFS reserves more than is written behind the end of a file, and that would stay in the holes.
                    rustix::fs::ftruncate(&destination, size).map_err(CopyError::Destination)?;
                }
                copied.holes += length;
                monitor.advance(Amount { files: 0, bytes: length });
                end = offset + length;
                if let Some(hasher) = &mut hasher {
                    hash::zeros(hasher, length, monitor).map_err(CopyError::Source)?;
                }
            }
            Segment::Data { offset, length } => {
                end = offset;
                while end < offset + length {
                    if monitor.is_cancelled() {
                        return Err(CopyError::Source(Errno::CANCELED));
                    }
                    let want = buffer.len().min((offset + length - end) as usize);
                    let got = positioned::read_full(source, &mut buffer[..want], end).map_err(CopyError::Source)?;
                    if got == 0 {
                        break 'segments;
                    }
                    positioned::write_all(&destination, &buffer[..got], end).map_err(CopyError::Destination)?;
                    if let Some(hasher) = &mut hasher {
                        hasher.update(&buffer[..got]);
                    }
                    end += got as u64;
                    copied.data += got as u64;
                    monitor.advance(Amount { files: 0, bytes: got as u64 });
                }
            }
        }
    }
    // A hole at the end leaves no write behind that would set the size.
    rustix::fs::ftruncate(&destination, end).map_err(CopyError::Destination)?;
    copied.hash = hasher.map(|hasher| *hasher.finalize().as_bytes());
    Ok(copied)
}

/// Which side of a copy failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyError {
    /// The file that is read.
    Source(Errno),
    /// The file that is written.
    Destination(Errno),
}

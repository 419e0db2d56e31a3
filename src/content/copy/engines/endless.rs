//! Files that say they are empty and may not be: those of procfs are made as they are read, and have no size.

use super::super::content::{Copied, CopyError, Request};
use super::super::engine::Engine;
use crate::fs::direct_io::Aligned;
use crate::fs::pread;
use crate::fs::status::Status;
use crate::monitor::{Amount, Monitor};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// The kernel makes a page or more at a time.
const BUFFER: usize = 128 << 10;

/// Copies what can be read of a file whose size is 0. One with blocks is what it says.
pub(in super::super) fn copy(
    source: BorrowedFd<'_>,
    status: &Status,
    destination: BorrowedFd<'_>,
    request: &Request,
    monitor: &dyn Monitor,
) -> Result<Copied, CopyError> {
    let mut hasher = request.hashed.then(blake3::Hasher::new);
    let mut copied = Copied::by(request.engine.unwrap_or(Engine::Buffered));
    if status.allocated == 0 {
        let mut buffer = Aligned::take(BUFFER);
        loop {
            if monitor.is_cancelled() {
                return Err(CopyError::Source(Errno::CANCELED));
            }
            // One call a turn: an empty file costs one.
            let got = super::uninterrupted(|| rustix::io::pread(source, buffer.bytes_mut(), copied.data));
            let got = got.map_err(CopyError::Source)?;
            let Some(bytes) = buffer.bytes().get(..got).filter(|bytes| !bytes.is_empty()) else { break };
            pread::write_all(destination, bytes, copied.data).map_err(CopyError::Destination)?;
            if let Some(hasher) = &mut hasher {
                hasher.update(bytes);
            }
            copied.engine = Engine::Buffered;
            copied.data += got as u64;
            copied.read += got as u64;
            monitor.advance(Amount { files: 0, bytes: got as u64 });
        }
    }
    copied.hash = hasher.map(|hasher| *hasher.finalize().as_bytes());
    Ok(copied)
}

//! Copies files that claim to be empty. Files in procfs have size 0, and their content is made when they are read.

use super::engines::uninterrupted;
use super::file_copy::FileCopy;
use super::types::{Copied, CopyError, Request};
use crate::content::hash::StreamHash;
use crate::fs::direct_io::Aligned;
use crate::fs::pread;
use crate::monitor::Amount;
use rustix::io::Errno;

/// The kernel makes a page or more at a time.
const BUFFER: usize = 128 << 10;

/// Copies all that can be read of a file with size 0. A file that has blocks is really empty.
pub(super) fn copy(copy: &FileCopy<'_>, request: &Request) -> Result<Copied, CopyError> {
    let FileCopy { source, status, destination, monitor, .. } = *copy;
    let mut hash = request.hashed.then(StreamHash::default);
    let mut copied = request.engine.map_or_else(Copied::by_reads_and_writes, Copied::by);
    if status.allocated == 0 {
        let mut buffer = Aligned::take(BUFFER);
        loop {
            if monitor.is_cancelled() {
                return Err(CopyError::Source(Errno::CANCELED));
            }
            // One call for each round: an empty file costs one call.
            let got = uninterrupted(|| rustix::io::pread(source, buffer.bytes_mut(), copied.data));
            let got = got.map_err(CopyError::Source)?;
            let Some(bytes) = buffer.bytes().get(..got).filter(|bytes| !bytes.is_empty()) else { break };
            pread::write_all(destination, bytes, copied.data).map_err(CopyError::Destination)?;
            if let Some(hash) = &mut hash {
                hash.append(bytes);
            }
            copied.engine = Copied::by_reads_and_writes().engine;
            copied.data += got as u64;
            copied.read += got as u64;
            monitor.advance(Amount { files: 0, bytes: got as u64 });
        }
    }
    copied.hash = hash.map(|hash| hash.finish());
    Ok(copied)
}

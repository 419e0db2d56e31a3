//! Which files have a hash. BLAKE3 has no shortcut for zeros: it hashes each of its chunks with the chunk's offset. So
//! a file gets no hash if its holes are out of proportion to its data, and the cost of a file depends on its data, not
//! on its size.

use crate::fs::sparse;
use crate::fs::status::Status;
use rustix::io::Result;
use std::os::fd::AsFd;

/// A file with at most this many bytes of holes is always hashed: the work is small next to the cost of its inode.
pub(super) const FREE_HOLES: u64 = 4 << 20;

/// Further holes are hashed up to this many bytes for each byte of data.
const HOLES_PER_BYTE: u64 = 1024;

/// Whether a file of this size with this many bytes of holes is hashed.
pub(super) fn is_proportionate(size: u64, holes: u64) -> bool {
    holes <= FREE_HOLES || holes - FREE_HOLES <= size.saturating_sub(holes).saturating_mul(HOLES_PER_BYTE)
}

/// Whether the status of a file shows that it has too little on disk for its size to be hashed.
pub fn is_too_sparse(status: &Status) -> bool {
    !is_proportionate(status.size, status.size.saturating_sub(status.allocated))
}

/// Whether an open file of this status is hashed. Looks for holes if the file has room for large ones: allocated blocks
/// show none, because they may never have been written, and a copy of the file does not have them.
///
/// # Errors
/// Errors of lseek(2).
pub fn is_hashed(fd: impl AsFd, status: &Status) -> Result<bool> {
    if status.size <= FREE_HOLES {
        return Ok(true);
    }
    Ok(is_proportionate(status.size, sparse::holes(fd, status.size)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_on_holes_grows_with_the_data() {
        assert!(is_proportionate(u64::MAX, FREE_HOLES) && is_proportionate(u64::MAX, u64::MAX / 2));
        assert!(is_proportionate(FREE_HOLES, FREE_HOLES) && !is_proportionate(FREE_HOLES + 1, FREE_HOLES + 1));
        let data = 1 << 30;
        assert!(is_proportionate(data + data * HOLES_PER_BYTE, data * HOLES_PER_BYTE));
        assert!(!is_proportionate(data + data * 2 * HOLES_PER_BYTE, data * 2 * HOLES_PER_BYTE));
    }
}

//! `XFS_IOC_INUMBERS`: the chunks in which XFS stores its inodes, and the used inodes in each. Only for root.
//!
//! Sources: ioctl_xfs_inumbers(2), `fs/xfs/libxfs/xfs_fs.h`.

use super::bulk::{self, Record, Request};
use rustix::io::Result;
use rustix::ioctl::Opcode;
use std::os::fd::AsFd;

const XFS_IOC_INUMBERS: Opcode = bulk::call(128);
const _: () = assert!(XFS_IOC_INUMBERS == 0x8040_5880);

/// The number of chunks per call: 24 KiB of buffer.
const BATCH: usize = 1024;

/// The number of inodes in a chunk.
pub(crate) const CHUNK: u64 = 64;

/// `struct xfs_inumbers`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawChunk {
    startino: u64,
    allocmask: u64,
    alloccount: u8,
    version: u8,
    padding: [u8; 6],
}

const _: () = assert!(size_of::<RawChunk>() == 24);

// SAFETY: the call is XFS_IOC_INUMBERS, which fills `struct xfs_inumbers`, and its fields are all numbers.
unsafe impl Record for RawChunk {
    const OPCODE: Opcode = XFS_IOC_INUMBERS;
    const EMPTY: Self = RawChunk { startino: 0, allocmask: 0, alloccount: 0, version: 0, padding: [0; 6] };
}

/// A chunk of [`CHUNK`] inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The number of its first inode.
    pub first: u64,
    /// A bit for each used inode, the lowest for the first inode.
    pub used: u64,
}

/// Passes the chunks from the one with inode `from` on to `each`, in order, until it returns false.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`; `NOTTY` on other filesystems, and before Linux 5.4.
#[doc(alias = "XFS_IOC_INUMBERS")]
pub(crate) fn chunks(fd: impl AsFd, from: u64, mut each: impl FnMut(Chunk) -> bool) -> Result<()> {
    let mut request = Request::<RawChunk, BATCH>::new();
    let mut next = Some(from);
    while let Some(from) = next {
        let (chunks, following) = request.fetch(&fd, from, BATCH)?;
        for raw in chunks {
            if !each(Chunk { first: raw.startino, used: raw.allocmask }) {
                return Ok(());
            }
        }
        next = following;
    }
    Ok(())
}

//! Calls that only XFS has. Here: opens an inode by its number. `geometry` has the parameters of the filesystem,
//! `inodes` lists its inodes, and `chunks` lists where they are. Both use the request of `bulk`. `deleted` waits until
//! the space of deleted files is free.
//!
//! Sources: `fs/xfs/xfs_export.h`, `fs/xfs/libxfs/xfs_fs.h`.

mod bulk;
mod chunks;
mod deleted;
mod geometry;
mod inodes;

pub(crate) use chunks::{CHUNK, chunks};
pub(crate) use deleted::free_deleted;
pub(crate) use geometry::{Geometry, geometry, used_inodes};
pub(crate) use inodes::{Inode, inode, inodes, inodes_from, inodes_in};

use super::handle;
use rustix::fs::OFlags;
use rustix::io::Result;
use std::os::fd::{AsFd, OwnedFd};

/// `FILEID_INO32_GEN | XFS_FILEID_TYPE_64FLAG`: a `struct xfs_fid64` without a parent.
const FILEID_INO64_GEN: i32 = 0x81;

/// Opens the inode with this number and generation on the XFS of `mount`, without a path.
///
/// # Errors
/// `STALE` if it no longer exists; `PERM` without `CAP_DAC_READ_SEARCH`.
pub(crate) fn open_inode(mount: impl AsFd, number: u64, generation: u32, flags: OFlags) -> Result<OwnedFd> {
    let mut data = [0; 12];
    data[..8].copy_from_slice(&number.to_ne_bytes());
    data[8..].copy_from_slice(&generation.to_ne_bytes());
    handle::open(mount, FILEID_INO64_GEN, &data, flags)
}

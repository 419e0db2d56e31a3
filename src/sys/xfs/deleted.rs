//! `XFS_IOC_FREE_EOFBLOCKS`: waits until the space of deleted files is free.
//!
//! Sources: `fs/xfs/libxfs/xfs_fs.h`, `fs/xfs/xfs_icache.c`.

use rustix::io::Result;
use rustix::ioctl::{self, Opcode, Setter, opcode};
use std::os::fd::AsFd;

const XFS_IOC_FREE_EOFBLOCKS: Opcode = opcode::read::<RawEofBlocks>(b'X', 58);
const _: () = assert!(XFS_IOC_FREE_EOFBLOCKS == 0x8080_583a);

const XFS_EOFBLOCKS_VERSION: u32 = 1;
const XFS_EOF_FLAGS_MINFILESIZE: u32 = 1 << 4;

/// `struct xfs_fs_eofblocks`.
#[repr(C)]
#[derive(Default)]
struct RawEofBlocks {
    version: u32,
    flags: u32,
    uid: u32,
    gid: u32,
    prid: u32,
    pad32: u32,
    min_file_size: u64,
    pad64: [u64; 12],
}

const _: () = assert!(size_of::<RawEofBlocks>() == 128);

/// Waits until the space of files that were deleted, and that nobody holds open, is free. XFS frees it in the
/// background.
///
/// The call also takes space from files that they reserved for growing. No file is as large as those that it is asked
/// for here.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`, `NOTTY` on other filesystems.
#[doc(alias = "XFS_IOC_FREE_EOFBLOCKS")]
pub(crate) fn free_deleted(fd: impl AsFd) -> Result<()> {
    let request = RawEofBlocks {
        version: XFS_EOFBLOCKS_VERSION,
        flags: XFS_EOF_FLAGS_MINFILESIZE,
        min_file_size: u64::MAX,
        ..RawEofBlocks::default()
    };
    // SAFETY: the number belongs to this structure (checked above), which the kernel only reads.
    let request = unsafe { Setter::<XFS_IOC_FREE_EOFBLOCKS, RawEofBlocks>::new(request) };
    // SAFETY: the structure that the request carries lives during the call.
    unsafe { ioctl::ioctl(fd, request) }
}

//! `XFS_IOC_INUMBERS`: the chunks in which XFS keeps its inodes, and which inodes of each are in use. For root only.
//!
//! Sources: ioctl_xfs_inumbers(2), `fs/xfs/libxfs/xfs_fs.h`.

use rustix::io::Result;
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode, opcode};
use std::ffi::c_void;
use std::os::fd::AsFd;

const XFS_IOC_INUMBERS: Opcode = opcode::read::<Header>(b'X', 128);
const _: () = assert!(XFS_IOC_INUMBERS == 0x8040_5880);

/// Chunks asked for in one call: 24 KiB of buffer.
const BATCH: usize = 1024;

/// How many inodes a chunk holds.
pub const CHUNK: u64 = 64;

/// `struct xfs_bulk_ireq`.
#[repr(C)]
struct Header {
    ino: u64,
    flags: u32,
    icount: u32,
    ocount: u32,
    agno: u32,
    reserved: [u64; 5],
}

/// `struct xfs_inumbers`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Raw {
    startino: u64,
    allocmask: u64,
    alloccount: u8,
    version: u8,
    padding: [u8; 6],
}

const _: () = assert!(size_of::<Header>() == 64);
const _: () = assert!(size_of::<Raw>() == 24);

#[repr(C)]
struct Request {
    header: Header,
    chunks: [Raw; BATCH],
}

struct Call<'a>(&'a mut Request);

// SAFETY: the number is XFS_IOC_INUMBERS's, and the pointer leads to a whole `xfs_inumbers_req` with its array.
unsafe impl Ioctl for Call<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        XFS_IOC_INUMBERS
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> Result<()> {
        Ok(())
    }
}

/// A chunk of [`CHUNK`] inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The number of its first inode.
    pub first: u64,
    /// A bit for each inode that is in use, the lowest for the first.
    pub used: u64,
}

/// Hands the chunks from that of inode `from` on to `each`, in their order, until it returns false.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`; `NOTTY` on other filesystems, and before Linux 5.4.
#[doc(alias = "XFS_IOC_INUMBERS")]
pub fn chunks(fd: impl AsFd, from: u64, mut each: impl FnMut(Chunk) -> bool) -> Result<()> {
    let header = Header { ino: from, flags: 0, icount: BATCH as u32, ocount: 0, agno: 0, reserved: [0; 5] };
    let mut request = Box::new(Request { header, chunks: [Raw::default(); BATCH] });
    loop {
        let before = request.header.ino;
        // SAFETY: the request has room for the `icount` chunks it announces.
        unsafe { ioctl::ioctl(&fd, Call(&mut request)) }?;
        let count = (request.header.ocount as usize).min(BATCH);
        for raw in &request.chunks[..count] {
            if !each(Chunk { first: raw.startino, used: raw.allocmask }) {
                return Ok(());
            }
        }
        // The kernel's word that it is over, or a number that would make no progress.
        if count == 0 || request.header.ino <= before {
            return Ok(());
        }
    }
}

//! The request that all listings of XFS share: a header with the first inode, and room for records.
//!
//! Sources: ioctl_xfs_bulkstat(2), ioctl_xfs_inumbers(2), `fs/xfs/libxfs/xfs_fs.h`.

use rustix::io::Result;
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode, opcode};
use std::ffi::c_void;
use std::mem::offset_of;
use std::os::fd::AsFd;

/// A record of a listing.
///
/// # Safety
/// The kernel's call `OPCODE` accepts a `struct xfs_bulk_ireq` followed by an array of such records, and fills the
/// array. Any bytes are a valid record.
pub(super) unsafe trait Record: Copy {
    /// The call.
    const OPCODE: Opcode;
    /// A record before the kernel fills it.
    const EMPTY: Self;
}

/// The call with this number.
pub(super) const fn call(number: u8) -> Opcode {
    opcode::read::<Header>(b'X', number)
}

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

const _: () = assert!(size_of::<Header>() == 64);

/// A header with room for `N` records.
#[repr(C)]
pub(super) struct Request<R, const N: usize> {
    header: Header,
    records: [R; N],
}

impl<R: Record, const N: usize> Request<R, N> {
    const ARRAY_FOLLOWS_HEADER: () = assert!(offset_of!(Self, records) == size_of::<Header>());

    /// A request that has returned nothing yet.
    pub(super) fn new() -> Box<Self> {
        const { Self::ARRAY_FOLLOWS_HEADER };
        let header = Header { ino: 0, flags: 0, icount: N as u32, ocount: 0, agno: 0, reserved: [0; 5] };
        Box::new(Request { header, records: [R::EMPTY; N] })
    }

    /// Makes one call: the records from inode `from` on, at most `most` and as many as fit, and the inode to continue
    /// from. `None` when there are no more.
    pub(super) fn fetch(&mut self, fd: impl AsFd, from: u64, most: usize) -> Result<(&[R], Option<u64>)> {
        self.header.ino = from;
        self.header.icount = most.min(N) as u32;
        // SAFETY: the request has room for the `icount` records it announces.
        unsafe { ioctl::ioctl(fd, Call(self)) }?;
        let records = &self.records[..(self.header.ocount as usize).min(N)];
        // The kernel reports the end, or the next number would make no progress.
        let is_over = records.is_empty() || self.header.ino <= from;
        Ok((records, (!is_over).then_some(self.header.ino)))
    }
}

struct Call<'a, R, const N: usize>(&'a mut Request<R, N>);

// SAFETY: the number accepts a header followed by such records, as the trait requires, and the pointer points to them.
unsafe impl<R: Record, const N: usize> Ioctl for Call<'_, R, N> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        R::OPCODE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> Result<()> {
        Ok(())
    }
}

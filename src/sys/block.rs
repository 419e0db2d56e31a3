//! `FIGETBSZ`: the block size of the filesystem that contains a file. statfs(2) does not always report it.
//!
//! Source: `include/uapi/linux/fs.h`.

use rustix::io::Result;
use rustix::ioctl::{self, Getter, Opcode, opcode};
use std::ffi::c_int;
use std::os::fd::AsFd;

/// Defined without a size or a direction, although the kernel writes an `int`.
const FIGETBSZ: Opcode = opcode::none(0, 2);
const _: () = assert!(FIGETBSZ == 2);

/// The block size in bytes, for any open file.
#[doc(alias = "FIGETBSZ")]
pub(crate) fn size(fd: impl AsFd) -> Result<u32> {
    // SAFETY: the kernel writes an `int` for this number (`do_vfs_ioctl` in fs/ioctl.c).
    let request = unsafe { Getter::<FIGETBSZ, c_int>::new() };
    // SAFETY: the kernel fills the integer that the request carries.
    let size = unsafe { ioctl::ioctl(fd, request) }?;
    Ok(size.unsigned_abs())
}

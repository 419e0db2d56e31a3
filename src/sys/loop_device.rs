//! `LOOP_GET_STATUS64`: the file behind a loop device.
//!
//! Source: loop(4), `include/uapi/linux/loop.h`.

use rustix::io::Result;
use rustix::ioctl::{self, Getter, Opcode};
use std::os::fd::AsFd;

/// Defined without a size or a direction, although the kernel writes a structure.
const LOOP_GET_STATUS64: Opcode = 0x4c05;

/// `struct loop_info64`.
#[repr(C)]
struct Info {
    device: u64,
    inode: u64,
    rest: [u64; 27],
}

const _: () = assert!(size_of::<Info>() == 232);

/// The device number of the filesystem with the file, as in its status, and the number of the file's inode.
#[doc(alias = "LOOP_GET_STATUS64")]
pub(crate) fn backing_file(device: impl AsFd) -> Result<(u64, u64)> {
    // SAFETY: the kernel writes a `struct loop_info64` for this number (`lo_ioctl` in drivers/block/loop.c).
    let request = unsafe { Getter::<LOOP_GET_STATUS64, Info>::new() };
    // SAFETY: the kernel fills the structure that the request carries.
    let Info { device, inode, .. } = unsafe { ioctl::ioctl(device, request) }?;
    Ok((device, inode))
}

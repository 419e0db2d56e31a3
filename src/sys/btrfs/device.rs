//! `BTRFS_IOC_DEV_INFO`: the devices of a filesystem.
//!
//! Source: `include/uapi/linux/btrfs.h`.

use rustix::io::{Errno, Result};
use rustix::ioctl::{self, Opcode, Updater, opcode};
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

const BTRFS_IOC_DEV_INFO: Opcode = opcode::read_write::<DevInfo>(0x94, 30);
const _: () = assert!(BTRFS_IOC_DEV_INFO == 0xd000_941e);

/// `struct btrfs_ioctl_dev_info_args`.
#[repr(C)]
struct DevInfo {
    devid: u64,
    uuid: [u8; 16],
    bytes_used: u64,
    total_bytes: u64,
    fsid: [u8; 16],
    unused: [u64; 377],
    path: [u8; 1024],
}

const _: () = assert!(size_of::<DevInfo>() == 4096);

/// `BTRFS_IOC_DEV_INFO`: the path of a device, as the kernel knows it.
///
/// # Errors
/// `NODEV` if there is no such device or it is missing; `NOTTY` on other filesystems.
#[doc(alias = "BTRFS_IOC_DEV_INFO")]
pub(crate) fn path(fd: impl AsFd, number: u64) -> Result<PathBuf> {
    let mut info = DevInfo {
        devid: number,
        uuid: [0; 16],
        bytes_used: 0,
        total_bytes: 0,
        fsid: [0; 16],
        unused: [0; 377],
        path: [0; 1024],
    };
    // SAFETY: the number belongs to this structure (checked above).
    let call = unsafe { Updater::<BTRFS_IOC_DEV_INFO, DevInfo>::new(&mut info) };
    // SAFETY: the kernel reads and fills the structure that the request carries.
    unsafe { ioctl::ioctl(fd, call) }?;
    let path: Vec<u8> = info.path.into_iter().take_while(|byte| *byte != 0).collect();
    if path.is_empty() { Err(Errno::NODEV) } else { Ok(OsString::from_vec(path).into()) }
}

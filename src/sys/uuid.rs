//! `FS_IOC_GETFSUUID`: the UUID of a mounted filesystem, without privilege (Linux 6.9).
//!
//! Source: `include/uapi/linux/fs.h`.

use rustix::io::Result;
use rustix::ioctl::{self, Getter, Opcode, opcode};
use std::os::fd::AsFd;

const FS_IOC_GETFSUUID: Opcode = opcode::read::<FsUuid>(0x15, 0);
const _: () = assert!(FS_IOC_GETFSUUID == 0x8011_1500);

/// `struct fsuuid2`.
#[repr(C)]
struct FsUuid {
    length: u8,
    uuid: [u8; 16],
}

const _: () = assert!(size_of::<FsUuid>() == 17);

/// `ioctl(FS_IOC_GETFSUUID)`: the UUID of the filesystem that contains `fd`.
///
/// # Errors
/// `NOTTY` on older kernels and on filesystems without a UUID.
#[doc(alias = "FS_IOC_GETFSUUID")]
pub(crate) fn of_filesystem(fd: impl AsFd) -> Result<[u8; 16]> {
    // SAFETY: the number belongs to this structure (checked above), and any bytes are a valid value of it.
    let request = unsafe { Getter::<FS_IOC_GETFSUUID, FsUuid>::new() };
    // SAFETY: the kernel fills the structure that the request carries.
    let found = unsafe { ioctl::ioctl(fd, request) }?;
    Ok(found.uuid)
}

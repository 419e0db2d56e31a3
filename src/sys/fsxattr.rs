//! `FS_IOC_FSGETXATTR`, `FS_IOC_FSSETXATTR`: metadata of an inode besides its mode and its attributes: project id,
//! extent size hints, extended flags.
//!
//! Sources: ioctl_xfs_fsgetxattr(2), `include/uapi/linux/fs.h`.

use rustix::io::Result;
use rustix::ioctl::{self, Getter, Opcode, Setter, opcode};
use std::os::fd::AsFd;

const FSGETXATTR: Opcode = opcode::read::<FsXattr>(b'X', 31);
const FSSETXATTR: Opcode = opcode::write::<FsXattr>(b'X', 32);
const _: () = assert!(FSGETXATTR == 0x801c_581f);
const _: () = assert!(FSSETXATTR == 0x401c_5820);

/// `struct fsxattr`.
#[doc(alias = "fsxattr")]
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FsXattr {
    /// `FS_XFLAG_*`.
    pub xflags: u32,
    /// Extent size hint, in bytes.
    pub extent_size: u32,
    /// Number of data extents. Ignored by `FS_IOC_FSSETXATTR`.
    pub extents: u32,
    /// Project id, used by project quotas.
    pub project: u32,
    /// Copy-on-write extent size hint, in bytes: XFS rounds up its reservation for a write into a shared range to this
    /// size.
    pub cow_extent_size: u32,
    reserved: [u8; 8],
}

const _: () = assert!(size_of::<FsXattr>() == 28);

/// `FS_XFLAG_REALTIME`: the data is on XFS's realtime device.
pub(crate) const REALTIME: u32 = 0x1;
/// `FS_XFLAG_PROJINHERIT`: new entries of this directory get its project id.
pub(crate) const PROJECT_INHERIT: u32 = 0x200;
/// `FS_XFLAG_COWEXTSIZE`: the copy-on-write extent size hint is active.
pub(crate) const COW_EXTENT_SIZE: u32 = 0x1_0000;

/// `FS_IOC_FSGETXATTR`: reads these attributes of an open file or directory.
///
/// # Errors
/// `NOTTY` or `OPNOTSUPP` if the filesystem has none.
#[doc(alias = "FS_IOC_FSGETXATTR")]
pub(crate) fn get(fd: impl AsFd) -> Result<FsXattr> {
    // SAFETY: the number belongs to this structure (checked above), and any bytes are a valid value of it.
    let request = unsafe { Getter::<FSGETXATTR, FsXattr>::new() };
    // SAFETY: the kernel fills the structure that the request carries.
    unsafe { ioctl::ioctl(fd, request) }
}

/// `FS_IOC_FSSETXATTR`: sets all of them, so start with the result of [`get`].
///
/// # Errors
/// `PERM` to change a project id from a user namespace or without being the owner; `INVAL` for an invalid value.
#[doc(alias = "FS_IOC_FSSETXATTR")]
pub(crate) fn set(fd: impl AsFd, attributes: FsXattr) -> Result<()> {
    // SAFETY: the number belongs to this structure (checked above), and the kernel only reads it.
    let request = unsafe { Setter::<FSSETXATTR, FsXattr>::new(attributes) };
    // SAFETY: the request carries the structure.
    unsafe { ioctl::ioctl(fd, request) }
}

//! Creates, snapshots and deletes subvolumes, and makes them read-only: `BTRFS_IOC_SUBVOL_CREATE_V2`,
//! `BTRFS_IOC_SNAP_CREATE_V2`, `BTRFS_IOC_SNAP_DESTROY_V2`, `BTRFS_IOC_SUBVOL_SETFLAGS`, `BTRFS_IOC_SYNC`. The name and
//! place of a subvolume are in `logical`.
//!
//! Sources: `include/uapi/linux/btrfs.h`, `fs/btrfs/ioctl.c`, btrfs-ioctl(2).

use rustix::io::{Errno, Result};
use rustix::ioctl::{self, Opcode, Setter, opcode};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

const BTRFS_IOC_SYNC: Opcode = opcode::none(0x94, 8);
const BTRFS_IOC_SNAP_CREATE_V2: Opcode = opcode::write::<Arguments>(0x94, 23);
const BTRFS_IOC_SUBVOL_CREATE_V2: Opcode = opcode::write::<Arguments>(0x94, 24);
const BTRFS_IOC_SUBVOL_SETFLAGS: Opcode = opcode::write::<u64>(0x94, 26);
const BTRFS_IOC_SNAP_DESTROY_V2: Opcode = opcode::write::<Arguments>(0x94, 63);
const _: () = assert!(BTRFS_IOC_SYNC == 0x9408);
const _: () = assert!(BTRFS_IOC_SNAP_CREATE_V2 == 0x5000_9417);
const _: () = assert!(BTRFS_IOC_SUBVOL_CREATE_V2 == 0x5000_9418);
const _: () = assert!(BTRFS_IOC_SUBVOL_SETFLAGS == 0x4008_941a);
const _: () = assert!(BTRFS_IOC_SNAP_DESTROY_V2 == 0x5000_943f);

/// `BTRFS_SUBVOL_RDONLY`: the flag in these calls.
const RDONLY: u64 = 1 << 1;

/// `BTRFS_SUBVOL_NAME_MAX` and the NUL after it.
const NAME: usize = 4040;

/// `struct btrfs_ioctl_vol_args_v2`.
#[repr(C)]
struct Arguments {
    fd: i64,
    transid: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; NAME],
}

const _: () = assert!(size_of::<Arguments>() == 4096);

impl Arguments {
    fn new(fd: Option<BorrowedFd<'_>>, flags: u64, name: &[u8]) -> Result<Arguments> {
        let mut arguments = Arguments {
            fd: fd.map_or(0, |fd| i64::from(fd.as_raw_fd())),
            transid: 0,
            flags,
            unused: [0; 4],
            name: [0; NAME],
        };
        // The last byte is always NUL.
        if name.len() >= NAME || name.contains(&0) {
            return Err(Errno::INVAL);
        }
        arguments.name[..name.len()].copy_from_slice(name);
        Ok(arguments)
    }
}

/// `BTRFS_IOC_SUBVOL_CREATE_V2`: creates an empty subvolume with the name `name` in the directory `dir`.
///
/// # Errors
/// `EXIST` if the name exists; `NOTTY` on other filesystems.
#[doc(alias = "BTRFS_IOC_SUBVOL_CREATE_V2")]
pub(crate) fn create(dir: impl AsFd, name: &[u8]) -> Result<()> {
    let arguments = Arguments::new(None, 0, name)?;
    // SAFETY: the number belongs to this structure (checked above), and the kernel only reads it.
    let request = unsafe { Setter::<BTRFS_IOC_SUBVOL_CREATE_V2, Arguments>::new(arguments) };
    // SAFETY: the request carries the whole structure, and its name ends with a NUL.
    unsafe { ioctl::ioctl(dir, request) }
}

/// `BTRFS_IOC_SNAP_CREATE_V2`: creates a snapshot with the name `name` in the directory `dir`. `source` is the root
/// directory of the subvolume. The snapshot is on the disk when the call returns.
///
/// # Errors
/// `PERM` for users other than root and the owner of the subvolume; `XDEV` if `source` is on another filesystem;
/// `INVAL` if `source` is not a root directory.
#[doc(alias = "BTRFS_IOC_SNAP_CREATE_V2")]
pub(crate) fn snapshot(source: impl AsFd, dir: impl AsFd, name: &[u8], read_only: bool) -> Result<()> {
    let arguments = Arguments::new(Some(source.as_fd()), if read_only { RDONLY } else { 0 }, name)?;
    // SAFETY: the number belongs to this structure (checked above), and the kernel only reads it.
    let request = unsafe { Setter::<BTRFS_IOC_SNAP_CREATE_V2, Arguments>::new(arguments) };
    // SAFETY: `source` is borrowed, hence open, for the length of the call; the name ends with a NUL.
    unsafe { ioctl::ioctl(dir, request) }
}

/// `BTRFS_IOC_SNAP_DESTROY_V2`: deletes the subvolume with the name `name` in the directory `dir`, with its content. It
/// must not contain other subvolumes.
///
/// # Errors
/// `PERM` without permission (which root has, and the owner with the mount option `user_subvol_rm_allowed`; for the
/// owner a read-only subvolume then gives `ROFS`); `NOTEMPTY` if it contains another subvolume; `INVAL` if it is not a
/// subvolume; `NOTTY` on other filesystems.
#[doc(alias = "BTRFS_IOC_SNAP_DESTROY_V2")]
pub(crate) fn destroy(dir: impl AsFd, name: &[u8]) -> Result<()> {
    let arguments = Arguments::new(None, 0, name)?;
    // SAFETY: the number belongs to this structure (checked above), and the kernel only reads it.
    let request = unsafe { Setter::<BTRFS_IOC_SNAP_DESTROY_V2, Arguments>::new(arguments) };
    // SAFETY: the request carries the whole structure, and its name ends with a NUL.
    unsafe { ioctl::ioctl(dir, request) }
}

/// `BTRFS_IOC_SYNC`: syncs the filesystem, and wakes the thread that frees the space of deleted subvolumes. syncfs(2)
/// does not wake it.
///
/// # Errors
/// `NOTTY` on other filesystems.
#[doc(alias = "BTRFS_IOC_SYNC")]
pub(crate) fn sync(fd: impl AsFd) -> Result<()> {
    // SAFETY: this call has no argument.
    let request = unsafe { ioctl::NoArg::<BTRFS_IOC_SYNC>::new() };
    // SAFETY: the call has no argument.
    unsafe { ioctl::ioctl(fd, request) }
}

/// `BTRFS_IOC_SUBVOL_SETFLAGS`: makes the subvolume with the root directory `root` read-only, or writable again.
///
/// # Errors
/// `PERM` for users other than root and the owner of the subvolume; `INVAL` if `root` is not the root directory of a
/// subvolume.
#[doc(alias = "BTRFS_IOC_SUBVOL_SETFLAGS")]
pub(crate) fn set_read_only(root: impl AsFd, read_only: bool) -> Result<()> {
    let flags = if read_only { RDONLY } else { 0 };
    // SAFETY: the number belongs to a 64-bit integer (checked above), and the kernel only reads it.
    let request = unsafe { Setter::<BTRFS_IOC_SUBVOL_SETFLAGS, u64>::new(flags) };
    // SAFETY: the request carries the integer.
    unsafe { ioctl::ioctl(root, request) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_kernel_could_not_take_are_refused() {
        assert!(Arguments::new(None, 0, &[b'x'; NAME - 1]).is_ok());
        assert!(Arguments::new(None, 0, &[b'x'; NAME]).is_err());
        assert!(Arguments::new(None, 0, b"a\0b").is_err());
    }
}

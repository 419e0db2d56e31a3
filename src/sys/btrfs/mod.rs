//! Calls that only Btrfs has. Here: the identity of the filesystem, which `st_dev` does not show on Btrfs. `logical`
//! leads from an address to its files, `tree` reads the trees themselves, `device` names the devices, `file_extent` and
//! `inode` parse the items of file content and of inodes in the trees, `transaction` commits, and `subvolume` creates and
//! deletes subvolumes.
//!
//! Source: `include/uapi/linux/btrfs.h`.

pub(crate) mod device;
mod file_extent;
pub(crate) mod inode;
pub(crate) mod logical;
pub(crate) mod subvolume;
pub(crate) mod transaction;
pub(crate) mod tree;

pub(crate) use file_extent::{ExtentPart, FileExtent};

use rustix::io::Result;
use rustix::ioctl::{self, Getter, Opcode, opcode};
use std::os::fd::AsFd;

const BTRFS_IOC_FS_INFO: Opcode = opcode::read::<FsInfo>(0x94, 31);
const _: () = assert!(BTRFS_IOC_FS_INFO == 0x8400_941f);

/// `struct btrfs_ioctl_fs_info_args`.
#[repr(C)]
struct FsInfo {
    max_id: u64,
    num_devices: u64,
    fsid: [u8; 16],
    nodesize: u32,
    sectorsize: u32,
    clone_alignment: u32,
    csum_type: u16,
    csum_size: u16,
    flags: u64,
    generation: u64,
    metadata_uuid: [u8; 16],
    reserved: [u8; 944],
}

const _: () = assert!(size_of::<FsInfo>() == 1024);

/// `BTRFS_IOC_FS_INFO`: the filesystem's UUID, the same for all its subvolumes. Needs no privilege.
#[doc(alias = "BTRFS_IOC_FS_INFO")]
pub(crate) fn filesystem_uuid(fd: impl AsFd) -> Result<[u8; 16]> {
    Ok(info(fd)?.fsid)
}

/// `BTRFS_IOC_FS_INFO`: the bytes of a node and of a leaf.
#[doc(alias = "BTRFS_IOC_FS_INFO")]
pub(crate) fn node_size(fd: impl AsFd) -> Result<u32> {
    Ok(info(fd)?.nodesize)
}

fn info(fd: impl AsFd) -> Result<FsInfo> {
    // SAFETY: the number belongs to this structure (checked above), and any bytes are a valid value of it.
    let request = unsafe { Getter::<BTRFS_IOC_FS_INFO, FsInfo>::new() };
    // SAFETY: the kernel fills the structure that the request carries.
    unsafe { ioctl::ioctl(fd, request) }
}

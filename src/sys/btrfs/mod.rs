//! Calls that only Btrfs has. Here: the identity of the filesystem, which `st_dev` does not show on Btrfs. `logical`
//! leads from an address to its files, `tree` reads the trees themselves, `checksums` the checksums of data in them,
//! `device` names the devices, `file_extent` and `inode` parse the items of file content and of inodes in the trees,
//! `transaction` commits, and `subvolume` creates and deletes subvolumes.
//!
//! Source: `include/uapi/linux/btrfs.h`.

pub(crate) mod checksums;
pub(crate) mod device;
mod file_extent;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
pub(crate) mod inode;
pub(crate) mod logical;
pub(crate) mod subvolume;
pub(crate) mod transaction;
pub(crate) mod tree;

pub(crate) use file_extent::{ExtentPart, FileExtent};

use rustix::io::Result;
use rustix::ioctl::{self, Opcode, Updater, opcode};
use std::os::fd::AsFd;

const BTRFS_IOC_FS_INFO: Opcode = opcode::read::<FsInfo>(0x94, 31);
const _: () = assert!(BTRFS_IOC_FS_INFO == 0x8400_941f);
/// `BTRFS_FS_INFO_FLAG_CSUM_INFO`: asks for the type and the size of the checksums, and marks them as filled in.
const CSUM_INFO: u64 = 1;

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

/// `BTRFS_IOC_FS_INFO`: the format of the checksums of file data. `None` if pleach or the kernel (before Linux 5.9)
/// does not know it.
#[doc(alias = "BTRFS_IOC_FS_INFO")]
pub(crate) fn checksum_format(fd: impl AsFd) -> Result<Option<checksums::Format>> {
    let info = info(fd)?;
    let is_known = info.flags & CSUM_INFO != 0;
    Ok(is_known
        .then(|| checksums::Format::new(info.csum_type, info.csum_size, info.sectorsize, info.nodesize))
        .flatten())
}

fn info(fd: impl AsFd) -> Result<FsInfo> {
    let mut info = FsInfo {
        max_id: 0,
        num_devices: 0,
        fsid: [0; 16],
        nodesize: 0,
        sectorsize: 0,
        clone_alignment: 0,
        csum_type: 0,
        csum_size: 0,
        flags: CSUM_INFO,
        generation: 0,
        metadata_uuid: [0; 16],
        reserved: [0; 944],
    };
    // SAFETY: the number belongs to this structure (checked above), and any bytes are a valid value of it.
    let request = unsafe { Updater::<BTRFS_IOC_FS_INFO, FsInfo>::new(&mut info) };
    // SAFETY: the kernel reads the flags in the structure that the request carries, and fills it.
    unsafe { ioctl::ioctl(fd, request) }?;
    Ok(info)
}

//! `XFS_IOC_FSGEOMETRY`: the parameters with which an XFS was created. `XFS_IOC_FSCOUNTS`: how many inodes it has.
//!
//! Sources: ioctl_xfs_fsgeometry(2), ioctl_xfs_fscounts(2), `fs/xfs/libxfs/xfs_fs.h`.

use rustix::io::Result;
use rustix::ioctl::{self, Getter, Opcode, opcode};
use std::ops::Range;
use std::os::fd::AsFd;

const XFS_IOC_FSGEOMETRY: Opcode = opcode::read::<RawGeometry>(b'X', 126);
const _: () = assert!(XFS_IOC_FSGEOMETRY == 0x8100_587e);

const XFS_IOC_FSCOUNTS: Opcode = opcode::read::<RawCounts>(b'X', 113);
const _: () = assert!(XFS_IOC_FSCOUNTS == 0x8020_5871);

const XFS_FSOP_GEOM_FLAGS_V5SB: u32 = 1 << 15;
const XFS_FSOP_GEOM_FLAGS_RMAPBT: u32 = 1 << 19;
const XFS_FSOP_GEOM_FLAGS_REFLINK: u32 = 1 << 20;

/// `struct xfs_fsop_geom`.
#[repr(C)]
struct RawGeometry {
    blocksize: u32,
    rtextsize: u32,
    agblocks: u32,
    agcount: u32,
    logblocks: u32,
    sectsize: u32,
    inodesize: u32,
    imaxpct: u32,
    datablocks: u64,
    rtblocks: u64,
    rtextents: u64,
    logstart: u64,
    uuid: [u8; 16],
    sunit: u32,
    swidth: u32,
    version: i32,
    flags: u32,
    logsectsize: u32,
    rtsectsize: u32,
    dirblocksize: u32,
    logsunit: u32,
    sick: u32,
    checked: u32,
    reserved: [u64; 17],
}

const _: () = assert!(size_of::<RawGeometry>() == 256);

/// `struct xfs_fsop_counts`.
#[repr(C)]
struct RawCounts {
    freedata: u64,
    freertx: u64,
    freeino: u64,
    allocino: u64,
}

const _: () = assert!(size_of::<RawCounts>() == 32);

/// The parameters with which an XFS was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// The filesystem's UUID.
    pub uuid: [u8; 16],
    /// The block size in bytes.
    pub block_size: u32,
    /// The size of an inode in bytes.
    pub inode_size: u32,
    /// The number of allocation groups.
    pub groups: u32,
    /// The blocks of each allocation group; the last group may have fewer.
    pub group_blocks: u32,
    /// The size of a block of a directory in bytes.
    pub directory_block_size: u32,
    /// Its metadata has checksums: version 5 of the format, the default since 2014.
    pub checksums: bool,
    /// It keeps a reverse map: which inode owns which block (`mkfs.xfs -m rmapbt=1`).
    pub reverse_map: bool,
    /// Files can share extents (`mkfs.xfs -m reflink=1`).
    pub reflink: bool,
    /// It has a realtime device in addition to the data device.
    pub realtime: bool,
}

impl Geometry {
    /// The bytes for records in a block of the trees of an allocation group.
    pub(crate) fn room_of_tree_block(&self) -> u64 {
        let header = if self.checksums { 56 } else { 16 };
        u64::from(self.block_size).saturating_sub(header)
    }

    /// The allocation group of an inode.
    pub(crate) fn group_of(&self, inode: u64) -> u64 {
        inode >> self.group_bits()
    }

    /// The numbers that inodes of an allocation group can have.
    pub(crate) fn inodes_of(&self, group: u32) -> Range<u64> {
        let first = |group: u64| group.saturating_mul(1 << self.group_bits());
        first(group.into())..first(u64::from(group) + 1)
    }

    /// How many low bits of an inode's number show its place in its allocation group.
    fn group_bits(&self) -> u32 {
        let in_block = (self.block_size / self.inode_size.max(1)).max(1).ilog2();
        (self.group_blocks.max(1).next_power_of_two().ilog2() + in_block).min(63)
    }

    /// The allocation group of an address in bytes on the data device, as FIEMAP reports it.
    pub(crate) fn group_of_address(&self, address: u64) -> u64 {
        let bytes = u64::from(self.group_blocks) * u64::from(self.block_size);
        address.checked_div(bytes).unwrap_or(0)
    }
}

/// `XFS_IOC_FSGEOMETRY`. Needs no privilege.
///
/// # Errors
/// `NOTTY` on other filesystems, and on Linux before 5.2.
#[doc(alias = "XFS_IOC_FSGEOMETRY")]
pub(crate) fn geometry(fd: impl AsFd) -> Result<Geometry> {
    // SAFETY: the number belongs to this structure (checked above), and any bytes are a valid value of it.
    let request = unsafe { Getter::<XFS_IOC_FSGEOMETRY, RawGeometry>::new() };
    // SAFETY: the kernel fills the structure that the request carries.
    let raw = unsafe { ioctl::ioctl(fd, request) }?;
    Ok(Geometry {
        uuid: raw.uuid,
        block_size: raw.blocksize,
        inode_size: raw.inodesize,
        groups: raw.agcount,
        group_blocks: raw.agblocks,
        directory_block_size: raw.dirblocksize,
        checksums: raw.flags & XFS_FSOP_GEOM_FLAGS_V5SB != 0,
        reverse_map: raw.flags & XFS_FSOP_GEOM_FLAGS_RMAPBT != 0,
        reflink: raw.flags & XFS_FSOP_GEOM_FLAGS_REFLINK != 0,
        realtime: raw.rtblocks != 0,
    })
}

/// `XFS_IOC_FSCOUNTS`: how many inodes the filesystem uses. Unlike statvfs(2), it never counts those of one project.
/// Needs no privilege.
///
/// # Errors
/// `NOTTY` on other filesystems.
#[doc(alias = "XFS_IOC_FSCOUNTS")]
pub(crate) fn used_inodes(fd: impl AsFd) -> Result<u64> {
    // SAFETY: the number belongs to this structure (checked above), and any bytes are a valid value of it.
    let request = unsafe { Getter::<XFS_IOC_FSCOUNTS, RawCounts>::new() };
    // SAFETY: the kernel fills the structure that the request carries.
    let RawCounts { freeino, allocino, .. } = unsafe { ioctl::ioctl(fd, request) }?;
    Ok(allocino.saturating_sub(freeino))
}

//! `XFS_IOC_FSGEOMETRY`: the parameters with which an XFS was created.
//!
//! Sources: ioctl_xfs_fsgeometry(2), `fs/xfs/libxfs/xfs_fs.h`.

use rustix::io::Result;
use rustix::ioctl::{self, Getter, Opcode, opcode};
use std::os::fd::AsFd;

const XFS_IOC_FSGEOMETRY: Opcode = opcode::read::<RawGeometry>(b'X', 126);
const _: () = assert!(XFS_IOC_FSGEOMETRY == 0x8100_587e);

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
    /// The blocks of each group; the last group may have fewer.
    pub group_blocks: u32,
    /// It keeps a reverse map: which inode owns which block (`mkfs.xfs -m rmapbt=1`).
    pub reverse_map: bool,
    /// Files can share extents (`mkfs.xfs -m reflink=1`).
    pub reflink: bool,
    /// It has a realtime device in addition to the data device.
    pub realtime: bool,
}

impl Geometry {
    /// The allocation group of an inode.
    pub(crate) fn group_of_inode(&self, number: u64) -> u32 {
        let inodes = self.block_size.checked_div(self.inode_size).and_then(u32::checked_ilog2).unwrap_or(0);
        let blocks = self.group_blocks.checked_next_power_of_two().map_or(32, u32::trailing_zeros);
        self.group(number >> (inodes + blocks))
    }

    /// The allocation group of an address in bytes on the data device, as FIEMAP reports it.
    pub(crate) fn group_of_address(&self, address: u64) -> u32 {
        let bytes = u64::from(self.group_blocks) * u64::from(self.block_size);
        self.group(address.checked_div(bytes).unwrap_or(0))
    }

    /// A group that exists.
    fn group(&self, number: u64) -> u32 {
        u32::try_from(number).unwrap_or(u32::MAX).min(self.groups.saturating_sub(1))
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
        reverse_map: raw.flags & XFS_FSOP_GEOM_FLAGS_RMAPBT != 0,
        reflink: raw.flags & XFS_FSOP_GEOM_FLAGS_REFLINK != 0,
        realtime: raw.rtblocks != 0,
    })
}

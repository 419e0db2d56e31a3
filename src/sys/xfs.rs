//! XFS's own calls: what the filesystem was made with, its inodes in their order, an inode opened by its number.
//!
//! Sources: ioctl_xfs_fsgeometry(2), ioctl_xfs_bulkstat(2), `fs/xfs/libxfs/xfs_fs.h`, `fs/xfs/xfs_export.h`.

use super::handle;
use rustix::fs::OFlags;
use rustix::io::Result;
use rustix::ioctl::{self, Getter, Ioctl, IoctlOutput, Opcode, opcode};
use std::ffi::c_void;
use std::os::fd::{AsFd, OwnedFd};

const XFS_IOC_FSGEOMETRY: Opcode = opcode::read::<RawGeometry>(b'X', 126);
const XFS_IOC_BULKSTAT: Opcode = opcode::read::<BulkHeader>(b'X', 127);
const _: () = assert!(XFS_IOC_FSGEOMETRY == 0x8100_587e);
const _: () = assert!(XFS_IOC_BULKSTAT == 0x8040_587f);

const XFS_FSOP_GEOM_FLAGS_RMAPBT: u32 = 1 << 19;
const XFS_FSOP_GEOM_FLAGS_REFLINK: u32 = 1 << 20;

/// `FS_XFLAG_REALTIME` of `linux/fs.h`.
const FS_XFLAG_REALTIME: u64 = 1;

/// `FILEID_INO32_GEN | XFS_FILEID_TYPE_64FLAG`: a `struct xfs_fid64` without a parent.
const FILEID_INO64_GEN: i32 = 0x81;

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

/// What an XFS was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a block.
    pub block_size: u32,
    /// Bytes of an inode.
    pub inode_size: u32,
    /// It keeps a reverse map: which inode owns which block (`mkfs.xfs -m rmapbt=1`).
    pub reverse_map: bool,
    /// Files can share extents (`mkfs.xfs -m reflink=1`).
    pub reflink: bool,
    /// It has a realtime device beside the data device.
    pub realtime: bool,
}

/// `XFS_IOC_FSGEOMETRY`. Needs no privilege.
///
/// # Errors
/// `NOTTY` on other filesystems, and on Linux before 5.2.
#[doc(alias = "XFS_IOC_FSGEOMETRY")]
pub fn geometry(fd: impl AsFd) -> Result<Geometry> {
    // SAFETY: the number belongs to this structure (checked above), and any bytes are a valid value of it.
    let request = unsafe { Getter::<XFS_IOC_FSGEOMETRY, RawGeometry>::new() };
    // SAFETY: the kernel fills the structure that the request carries.
    let raw = unsafe { ioctl::ioctl(fd, request) }?;
    Ok(Geometry {
        block_size: raw.blocksize,
        inode_size: raw.inodesize,
        reverse_map: raw.flags & XFS_FSOP_GEOM_FLAGS_RMAPBT != 0,
        reflink: raw.flags & XFS_FSOP_GEOM_FLAGS_REFLINK != 0,
        realtime: raw.rtblocks != 0,
    })
}

/// `struct xfs_bulk_ireq`.
#[repr(C)]
struct BulkHeader {
    ino: u64,
    flags: u32,
    icount: u32,
    ocount: u32,
    agno: u32,
    reserved: [u64; 5],
}

/// `struct xfs_bulkstat`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawInode {
    ino: u64,
    size: u64,
    blocks: u64,
    xflags: u64,
    times: [i64; 4],
    generation: u32,
    uid: u32,
    gid: u32,
    projectid: u32,
    times_nsec: [u32; 4],
    blksize: u32,
    rdev: u32,
    cowextsize_blocks: u32,
    extsize_blocks: u32,
    nlink: u32,
    extents: u32,
    aextents: u32,
    version: u16,
    forkoff: u16,
    sick: u16,
    checked: u16,
    mode: u16,
    pad2: u16,
    extents64: u64,
    pad: [u64; 6],
}

impl RawInode {
    const EMPTY: Self = RawInode {
        ino: 0,
        size: 0,
        blocks: 0,
        xflags: 0,
        times: [0; 4],
        generation: 0,
        uid: 0,
        gid: 0,
        projectid: 0,
        times_nsec: [0; 4],
        blksize: 0,
        rdev: 0,
        cowextsize_blocks: 0,
        extsize_blocks: 0,
        nlink: 0,
        extents: 0,
        aextents: 0,
        version: 0,
        forkoff: 0,
        sick: 0,
        checked: 0,
        mode: 0,
        pad2: 0,
        extents64: 0,
        pad: [0; 6],
    };
}

const _: () = assert!(size_of::<BulkHeader>() == 64);
const _: () = assert!(size_of::<RawInode>() == 192);

/// An inode as `XFS_IOC_BULKSTAT` tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// Its number.
    pub number: u64,
    /// Its generation: tells it from earlier inodes of the same number.
    pub generation: u32,
    /// How many names it has; 0 for a file that is deleted and still open.
    pub names: u32,
    /// Type and mode bits.
    pub mode: u32,
    /// Blocks that it takes on the disk.
    pub blocks: u64,
    /// Its content lies on the realtime device.
    pub realtime: bool,
}

#[repr(C)]
struct BulkRequest<const N: usize> {
    header: BulkHeader,
    inodes: [RawInode; N],
}

impl<const N: usize> BulkRequest<N> {
    /// One call: the inodes from number `first` on, as many as fit, and the number to go on from.
    fn fetch(fd: impl AsFd, first: u64) -> Result<(Vec<Inode>, u64)> {
        let header = BulkHeader { ino: first, flags: 0, icount: N as u32, ocount: 0, agno: 0, reserved: [0; 5] };
        let mut request = Box::new(BulkRequest { header, inodes: [RawInode::EMPTY; N] });
        // SAFETY: the request has room for the `icount` inodes it announces.
        unsafe { ioctl::ioctl(fd, BulkCall(&mut *request)) }?;
        let count = (request.header.ocount as usize).min(N);
        let inodes = request.inodes[..count].iter().map(|raw| Inode {
            number: raw.ino,
            generation: raw.generation,
            names: raw.nlink,
            mode: raw.mode.into(),
            blocks: raw.blocks,
            realtime: raw.xflags & FS_XFLAG_REALTIME != 0,
        });
        Ok((inodes.collect(), request.header.ino))
    }
}

struct BulkCall<'a, const N: usize>(&'a mut BulkRequest<N>);

// SAFETY: the number is XFS_IOC_BULKSTAT's, and the pointer leads to a whole `xfs_bulkstat_req` with its array.
unsafe impl<const N: usize> Ioctl for BulkCall<'_, N> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        XFS_IOC_BULKSTAT
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> Result<()> {
        Ok(())
    }
}

/// `XFS_IOC_BULKSTAT` for one inode; `None` where no inode has this number.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`; `NOTTY` before Linux 5.4.
#[doc(alias = "XFS_IOC_BULKSTAT")]
pub fn inode(fd: impl AsFd, number: u64) -> Result<Option<Inode>> {
    let (inodes, _) = BulkRequest::<1>::fetch(fd, number)?;
    Ok(inodes.into_iter().find(|inode| inode.number == number))
}

/// All inodes of the filesystem, by number, a bounded batch at a time; the filesystem's own are left out.
#[doc(alias = "XFS_IOC_BULKSTAT")]
pub fn inodes<Fd: AsFd>(fd: Fd) -> Inodes<Fd> {
    Inodes { fd, next: 0, batch: Vec::new().into_iter(), done: false }
}

/// Iterator of [`inodes`].
pub struct Inodes<Fd> {
    fd: Fd,
    next: u64,
    batch: std::vec::IntoIter<Inode>,
    done: bool,
}

impl<Fd: AsFd> Iterator for Inodes<Fd> {
    type Item = Result<Inode>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(inode) = self.batch.next() {
            return Some(Ok(inode));
        }
        if self.done {
            return None;
        }
        match BulkRequest::<512>::fetch(&self.fd, self.next) {
            Ok((inodes, next)) => {
                // The kernel's word that it is over, or a number that would make no progress.
                self.done = inodes.is_empty() || next <= self.next;
                (self.batch, self.next) = (inodes.into_iter(), next);
                self.batch.next().map(Ok)
            }
            Err(error) => {
                self.done = true;
                Some(Err(error))
            }
        }
    }
}

/// Opens the inode with this number and generation on the XFS of `mount`, without a path.
///
/// # Errors
/// `STALE` where it is gone; `PERM` without `CAP_DAC_READ_SEARCH`.
pub fn open_inode(mount: impl AsFd, number: u64, generation: u32, flags: OFlags) -> Result<OwnedFd> {
    let mut data = [0; 12];
    data[..8].copy_from_slice(&number.to_ne_bytes());
    data[8..].copy_from_slice(&generation.to_ne_bytes());
    handle::open(mount, FILEID_INO64_GEN, &data, flags)
}

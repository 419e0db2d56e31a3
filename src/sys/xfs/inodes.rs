//! `XFS_IOC_BULKSTAT`: the inodes of an XFS in the order of their numbers. Only for root.
//!
//! Sources: ioctl_xfs_bulkstat(2), `fs/xfs/libxfs/xfs_fs.h`.

use super::bulk::{self, Record, Request};
use super::chunks::CHUNK;
use rustix::io::Result;
use rustix::ioctl::Opcode;
use std::ops::Range;
use std::os::fd::AsFd;

const XFS_IOC_BULKSTAT: Opcode = bulk::call(127);
const _: () = assert!(XFS_IOC_BULKSTAT == 0x8040_587f);

/// The number of inodes per call: 96 KiB of buffer.
const BATCH: usize = 512;

/// `FS_XFLAG_REALTIME` of `linux/fs.h`.
const FS_XFLAG_REALTIME: u64 = 1;

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

const _: () = assert!(size_of::<RawInode>() == 192);

// SAFETY: the call is XFS_IOC_BULKSTAT, which fills `struct xfs_bulkstat`, and its fields are all numbers.
unsafe impl Record for RawInode {
    const OPCODE: Opcode = XFS_IOC_BULKSTAT;
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

/// An inode as `XFS_IOC_BULKSTAT` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    /// Its number.
    pub number: u64,
    /// Its generation, which distinguishes it from earlier inodes with the same number.
    pub generation: u32,
    /// The number of its names. 0 for a deleted file that is still open.
    pub names: u32,
    /// Type and mode bits.
    pub mode: u32,
    /// Blocks that it uses on the disk.
    pub blocks: u64,
    /// The bytes of the inode that its content may use, before its attributes; 0 if it has no attributes.
    pub content_room: u16,
    /// Its content is on the realtime device.
    pub realtime: bool,
    /// Everything else that shows a change: size, mtime and ctime (seconds, nanoseconds), and the numbers of extents of
    /// its content and of its attributes.
    pub state: [u64; 7],
}

impl Inode {
    /// The size of its content.
    pub(crate) fn size(&self) -> u64 {
        self.state[0]
    }

    /// Last change of content: seconds and nanoseconds.
    pub(crate) fn mtime(&self) -> (i64, u32) {
        (self.state[1].cast_signed(), self.state[2] as u32)
    }

    /// Last change of the inode.
    pub(crate) fn ctime(&self) -> (i64, u32) {
        (self.state[3].cast_signed(), self.state[4] as u32)
    }

    /// The number of extents of its content.
    pub(crate) fn extents(&self) -> u64 {
        self.state[5]
    }

    /// The number of extents of its attributes.
    pub(crate) fn attribute_extents(&self) -> u64 {
        self.state[6]
    }

    fn from_raw(raw: &RawInode) -> Inode {
        Inode {
            number: raw.ino,
            generation: raw.generation,
            names: raw.nlink,
            mode: raw.mode.into(),
            blocks: raw.blocks,
            content_room: raw.forkoff,
            realtime: raw.xflags & FS_XFLAG_REALTIME != 0,
            state: [
                raw.size,
                raw.times[1].cast_unsigned(),
                raw.times_nsec[1].into(),
                raw.times[2].cast_unsigned(),
                raw.times_nsec[2].into(),
                u64::from(raw.extents).max(raw.extents64),
                raw.aextents.into(),
            ],
        }
    }
}

/// Makes one call: the inodes from number `from` on, as many as fit, and the number to continue from.
fn fetch<const N: usize>(fd: impl AsFd, from: u64) -> Result<(Vec<Inode>, Option<u64>)> {
    let mut request = Request::<RawInode, N>::new();
    let (inodes, next) = request.fetch(fd, from, N)?;
    Ok((inodes.iter().map(Inode::from_raw).collect(), next))
}

/// `XFS_IOC_BULKSTAT` for one inode. `None` if no inode has this number.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`; `NOTTY` before Linux 5.4.
#[doc(alias = "XFS_IOC_BULKSTAT")]
pub(crate) fn inode(fd: impl AsFd, number: u64) -> Result<Option<Inode>> {
    let (inodes, _) = fetch::<1>(fd, number)?;
    Ok(inodes.into_iter().find(|inode| inode.number == number))
}

/// Passes the inodes with numbers in these runs, which are in ascending order and do not overlap, to `each`, until it
/// returns false. Hardly any others are read: a call asks for no more inodes than there are from its first run on, up
/// to a gap as wide as a chunk.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`; `NOTTY` before Linux 5.4.
#[doc(alias = "XFS_IOC_BULKSTAT")]
pub(crate) fn inodes_in(fd: impl AsFd, runs: &[Range<u64>], mut each: impl FnMut(&Inode) -> bool) -> Result<()> {
    let mut request = Request::<RawInode, BATCH>::new();
    let (mut rest, mut next) = (runs, 0);
    while let [run, others @ ..] = rest {
        if run.end <= next {
            rest = others;
            continue;
        }
        let from = next.max(run.start);
        let mut end = run.end;
        for other in others.iter().take_while(|other| other.start <= from + BATCH as u64) {
            if other.start - end >= CHUNK {
                break;
            }
            end = other.end;
        }
        let (inodes, following) = request.fetch(&fd, from, usize::try_from(end - from).unwrap_or(BATCH))?;
        for raw in inodes {
            while rest.first().is_some_and(|run| run.end <= raw.ino) {
                rest = &rest[1..];
            }
            let is_wanted = rest.first().is_some_and(|run| run.start <= raw.ino);
            if is_wanted && !each(&Inode::from_raw(raw)) {
                return Ok(());
            }
        }
        let Some(following) = following else { return Ok(()) };
        next = following;
    }
    Ok(())
}

/// All inodes of the filesystem except its internal ones, by number, in batches of limited size.
#[doc(alias = "XFS_IOC_BULKSTAT")]
pub(crate) fn inodes<Fd: AsFd>(fd: Fd) -> Inodes<Fd> {
    inodes_from(fd, 0)
}

/// Like [`inodes`], but only those from the number `first` on.
#[doc(alias = "XFS_IOC_BULKSTAT")]
pub(crate) fn inodes_from<Fd: AsFd>(fd: Fd, first: u64) -> Inodes<Fd> {
    Inodes { fd, next: Some(first), batch: Vec::new().into_iter() }
}

/// Iterator of [`inodes`] and [`inodes_from`].
pub(crate) struct Inodes<Fd> {
    fd: Fd,
    /// The number to continue from. `None` when there are no more.
    next: Option<u64>,
    batch: std::vec::IntoIter<Inode>,
}

impl<Fd: AsFd> Iterator for Inodes<Fd> {
    type Item = Result<Inode>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(inode) = self.batch.next() {
            return Some(Ok(inode));
        }
        match fetch::<BATCH>(&self.fd, self.next.take()?) {
            Ok((inodes, next)) => {
                (self.batch, self.next) = (inodes.into_iter(), next);
                self.batch.next().map(Ok)
            }
            Err(error) => Some(Err(error)),
        }
    }
}

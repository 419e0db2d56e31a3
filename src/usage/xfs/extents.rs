//! The extents of files by the numbers of their inodes, without a path.

use crate::error::{Error, Result};
use crate::sys::{fiemap, xfs};
use crate::usage::device::Volume;
use crate::usage::mapped;
use crate::util::pool;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::AsFd;

/// The number of files that are mapped at once.
pub(in crate::usage) const BATCH: usize = 1024;

/// The ranges of the disk that a file holds, and whether the kernel marks each as shared.
pub(in crate::usage) type Extents = Vec<(Range<u64>, bool)>;

/// The extents of an inode.
pub(in crate::usage) fn extents(mount: impl AsFd, inode: &xfs::Inode) -> rustix::io::Result<Extents> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOATIME;
    let fd = xfs::open_inode(mount, inode.number, inode.generation, flags)?;
    let mut ranges = Vec::new();
    for extent in fiemap::extents(&fd, false) {
        let extent = extent?;
        if let Some(physical) = extent.physical {
            ranges.push((physical..mapped::end(physical, extent.length), extent.is_shared()));
        }
    }
    Ok(ranges)
}

/// The extents of several inodes, read by the threads of the calling pool.
pub(in crate::usage) fn of_batch(volume: &Volume, batch: &[xfs::Inode]) -> Vec<Result<Extents>> {
    let read = |inode: &xfs::Inode| match extents(&volume.fd, inode) {
        // Deleted since: it holds nothing any more.
        Err(Errno::STALE | Errno::NOENT) => Ok(Vec::new()),
        Err(errno) => {
            let action = format!("map the file with inode {} on the filesystem of", inode.number);
            Err(Error::io(action, &volume.path, errno))
        }
        Ok(found) => Ok(found),
    };
    pool::map(batch, read)
}

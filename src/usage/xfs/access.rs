//! Whether the files of an XFS can be examined by the numbers of their inodes, with its reverse map.

use crate::sys::xfs;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Whether the filesystem of an open file has a reverse map for all its files, and this process may use it.
pub(in crate::usage) fn is_usable(fd: impl AsFd) -> bool {
    let ask = || {
        let geometry = xfs::geometry(&fd)?;
        let number = rustix::fs::fstat(&fd)?.st_ino;
        // Without the privilege GETFSMAP succeeds, and reports every owner as unknown. Files that are better mapped one
        // by one are opened by their numbers.
        let inode = xfs::inode(&fd, number)?.ok_or(Errno::STALE)?;
        xfs::open_inode(&fd, number, inode.generation, OFlags::RDONLY | OFlags::NONBLOCK)?;
        // Data on a realtime device has addresses of its own.
        Ok::<_, Errno>(geometry.reverse_map && !geometry.realtime)
    };
    ask().unwrap_or(false)
}

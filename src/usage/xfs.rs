//! Questions that only XFS answers, and only to root. Here: which files outside the set hold ranges that the set holds
//! several times, and the space that is freed besides the data. `chunks` has the inodes that are freed, `directories`
//! the blocks of directories that stay, and `free_space` shows whether XFS's own trees keep their size.

pub(super) mod chunks;
pub(super) mod directories;
pub(super) mod free_space;

use super::device::Volume;
use super::inodes::Inodes;
use super::mapped;
use crate::error::{Error, Result};
use crate::extents::ranges::RangeSet;
use crate::monitor::{Amount, Monitor};
use crate::sys::fiemap;
use crate::sys::xfs;
use free_space::FreeSpace;
use rayon::prelude::*;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::PathBuf;

/// The number of inodes that are mapped before their ranges are removed.
const BATCH: usize = 1024;

/// The space that XFS frees besides the data.
pub(super) struct Beside {
    /// Bytes of chunks of inodes, and of directories that stay.
    pub(super) bytes: u64,
    /// XFS may free more or less.
    pub(super) is_estimate: bool,
}

/// The space that is freed with `chunks`, with the directories around `paths`, and with so many `ranges` of data, if
/// `paths` are deleted. `unmapped` are the freed bytes that are in none of the ranges.
pub(super) fn beside<'p>(
    fd: impl AsFd,
    space: &FreeSpace,
    chunks: &chunks::Freed,
    paths: impl Iterator<Item = &'p PathBuf>,
    (ranges, unmapped): (u64, u64),
) -> Beside {
    let directories = directories::freed(fd, paths);
    let ranges = ranges + chunks.chunks + space.blocks(unmapped + directories.bytes);
    let is_estimate = chunks.is_estimate || directories.is_estimate || !space.keeps_its_trees(ranges);
    Beside { bytes: chunks.bytes + directories.bytes, is_estimate }
}

/// Removes from `ranges` all ranges held by files that are not in `inodes`. Maps all other files of the filesystem
/// until `ranges` is empty.
///
/// # Errors
/// `PERM` without root.
pub(super) fn subtract_outside(
    volume: &Volume,
    inodes: &Inodes,
    ranges: &mut RangeSet,
    monitor: &dyn Monitor,
) -> Result<()> {
    let failed = |errno: Errno| Error::io("list the inodes of the filesystem of", &volume.path, errno);
    let mut others = xfs::inodes(&volume.fd).filter(|inode| match inode {
        Ok(inode) => {
            let is_file = FileType::from_raw_mode(inode.mode) == FileType::RegularFile;
            is_file && inode.blocks > 0 && !inodes.contains(inode.number)
        }
        Err(_) => true,
    });
    while !ranges.is_empty() {
        let batch = others.by_ref().take(BATCH).collect::<rustix::io::Result<Vec<_>>>().map_err(failed)?;
        if batch.is_empty() {
            return Ok(());
        }
        let held: Vec<_> = batch
            .par_iter()
            .map(|inode| match held(volume, inode) {
                // Deleted since: it holds nothing any more.
                Err(Errno::STALE | Errno::NOENT) => Ok(Vec::new()),
                held => held,
            })
            .collect::<rustix::io::Result<_>>()
            .map_err(|errno| Error::io("map other files on the filesystem of", &volume.path, errno))?;
        held.iter().flatten().for_each(|range| ranges.remove(range.clone()));
        monitor.advance(Amount { files: batch.len() as u64, bytes: 0 });
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
    }
    Ok(())
}

/// The shared ranges that an inode holds.
fn held(volume: &Volume, inode: &xfs::Inode) -> rustix::io::Result<Vec<Range<u64>>> {
    let extents = extents(&volume.fd, inode)?;
    Ok(extents.into_iter().filter(|(_, is_shared)| *is_shared).map(|(range, _)| range).collect())
}

/// The ranges of the disk that an inode holds, and whether the kernel marks each as shared.
pub(super) fn extents(mount: impl AsFd, inode: &xfs::Inode) -> rustix::io::Result<Vec<(Range<u64>, bool)>> {
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

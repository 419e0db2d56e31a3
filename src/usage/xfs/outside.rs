//! Which ranges of the disk only a set of inodes holds: from the reverse map, or from the extents of all other files.

use super::extents::{BATCH, of_batch};
use crate::error::{Error, Result};
use crate::extents::ranges::RangeSet;
use crate::monitor::{Amount, Monitor};
use crate::sys::getfsmap::{self, Owner};
use crate::sys::xfs;
use crate::usage::device::{Method, Volume};
use crate::usage::inodes::Inodes;
use rustix::fs::FileType;
use rustix::io::Errno;

/// The part of `ranges` that only files in `inodes` hold.
///
/// # Errors
/// `PERM` without root.
pub(in crate::usage) fn subtract(
    volume: &Volume,
    inodes: &Inodes,
    ranges: RangeSet,
    monitor: &dyn Monitor,
) -> Result<RangeSet> {
    if volume.method == Method::Numbers
        && let Ok(rest) = by_reverse_map(volume, inodes, &ranges, monitor)
    {
        return Ok(rest);
    }
    by_all_files(volume, inodes, ranges, monitor)
}

/// Asks for the owners of each range.
fn by_reverse_map(
    volume: &Volume,
    inodes: &Inodes,
    ranges: &RangeSet,
    monitor: &dyn Monitor,
) -> rustix::io::Result<RangeSet> {
    let device = getfsmap::device_code(rustix::fs::fstat(&volume.fd)?.st_dev);
    let mut rest = ranges.clone();
    for range in ranges.iter() {
        if monitor.is_cancelled() {
            return Err(Errno::INTR);
        }
        for record in getfsmap::records(&volume.fd, device, range) {
            let record = record?;
            match record.owner {
                Owner::UNKNOWN => return Err(Errno::NODATA),
                Owner::Inode(inode) if record.is_file_data() && !inodes.contains(inode) => {
                    rest.remove(record.range());
                }
                _ => {}
            }
        }
    }
    Ok(rest)
}

/// Maps all other files of the filesystem until nothing is left.
fn by_all_files(volume: &Volume, inodes: &Inodes, mut ranges: RangeSet, monitor: &dyn Monitor) -> Result<RangeSet> {
    let failed = |errno: Errno| Error::io("list the inodes of the filesystem of", &volume.path, errno);
    let mut others = xfs::inodes(&volume.fd).filter(|inode| match inode {
        Ok(inode) => {
            let is_file = FileType::from_raw_mode(inode.mode) == FileType::RegularFile;
            is_file && inode.blocks > 0 && !inodes.contains(inode.number)
        }
        Err(_) => true,
    });
    while !ranges.is_empty() {
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        let batch = others.by_ref().take(BATCH).collect::<rustix::io::Result<Vec<_>>>().map_err(failed)?;
        if batch.is_empty() {
            break;
        }
        for found in of_batch(volume, &batch) {
            found?.into_iter().filter(|(_, is_shared)| *is_shared).for_each(|(range, _)| ranges.remove(range));
        }
        monitor.advance(Amount { files: batch.len() as u64, bytes: 0 });
    }
    Ok(ranges)
}

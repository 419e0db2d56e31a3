//! What XFS alone can tell, and only root may ask: which chunks of inodes go with a set, and which files outside it
//! hold ranges that the set holds several times.

use super::device::Volume;
use super::inodes::Inodes;
use super::mapped;
use crate::error::{Error, Result};
use crate::fs::mounts;
use crate::monitor::{Amount, Monitor};
use crate::sys::fiemap;
use crate::sys::xfs::{self, CHUNK};
use rayon::prelude::*;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

/// Inodes that are looked at before what they hold is taken out.
const BATCH: usize = 1024;

/// Bytes of inodes that are given back when `inodes` go, those of `staying` apart: XFS gives back chunks of 64 that
/// are all free.
///
/// # Errors
/// `PERM` to all but root.
pub(super) fn inode_bytes(volume: &Volume, inodes: &Inodes, staying: &HashSet<u64>) -> rustix::io::Result<u64> {
    let geometry = xfs::geometry(&volume.fd)?;
    let (inode, block) = (u64::from(geometry.inode_size), u64::from(geometry.block_size));
    let keeps_chunks = mounts::of(&volume.fd).is_ok_and(|mounts| mounts.iter().any(|mount| mount.has("ikeep")));
    // Where a block holds more than a chunk, or the mount says so, chunks are kept for later.
    if block > inode * CHUNK || keeps_chunks {
        return Ok(0);
    }
    let (Some(first), Some(last)) = (inodes.runs().next(), inodes.runs().last()) else { return Ok(0) };
    let mut chunks = 0;
    xfs::chunks(&volume.fd, first.start, |chunk| {
        let mut used = (0..CHUNK).filter(|bit| chunk.used >> bit & 1 == 1).map(|bit| chunk.first + bit);
        let goes = chunk.used != 0 && used.all(|inode| inodes.contains(inode) && !staying.contains(&inode));
        chunks += u64::from(goes);
        chunk.first < last.end
    })?;
    Ok(chunks * CHUNK * inode)
}

/// Takes out of `ranges` what files hold that are not in `inodes`: all others of the filesystem are asked, until
/// nothing is left in doubt.
///
/// # Errors
/// `PERM` to all but root.
pub(super) fn subtract_outside(
    volume: &Volume,
    inodes: &Inodes,
    ranges: &mut Ranges,
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
        held.iter().flatten().for_each(|range| ranges.subtract(range));
        monitor.advance(Amount { files: batch.len() as u64, bytes: 0 });
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
    }
    Ok(())
}

/// The shared ranges that an inode holds.
fn held(volume: &Volume, inode: &xfs::Inode) -> rustix::io::Result<Vec<Range<u64>>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOATIME;
    let fd = xfs::open_inode(&volume.fd, inode.number, inode.generation, flags)?;
    let mut ranges = Vec::new();
    for extent in fiemap::extents(&fd, false) {
        let extent = extent?;
        if let Some(physical) = extent.physical.filter(|_| extent.is_shared()) {
            ranges.push(physical..mapped::end(physical, extent.length));
        }
    }
    Ok(ranges)
}

/// Disjoint ranges, by their starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds a range that begins behind all others, or where the last one ends.
    pub(super) fn push(&mut self, range: Range<u64>) {
        match self.0.last_entry() {
            Some(mut last) if *last.get() == range.start => *last.get_mut() = range.end,
            _ => drop(self.0.insert(range.start, range.end)),
        }
    }

    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes in all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    fn subtract(&mut self, range: &Range<u64>) {
        while let Some((&start, &end)) = self.0.range(..range.end).next_back().filter(|(_, end)| **end > range.start) {
            self.0.remove(&start);
            if end > range.end {
                self.0.insert(range.end, end);
            }
            if start < range.start {
                self.0.insert(start, range.start);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_taken_out_is_gone_and_the_rest_stays(
            lengths in prop::collection::vec((0u64..5, 1u64..9), 0..20),
            taken in prop::collection::vec((0u64..200, 0u64..40), 0..12),
        ) {
            let (mut ranges, mut model, mut at) = (Ranges::default(), vec![false; 400], 0);
            for (gap, length) in lengths {
                at += gap;
                ranges.push(at..at + length);
                model[at as usize..(at + length) as usize].fill(true);
                at += length;
            }
            for (start, length) in taken {
                ranges.subtract(&(start..start + length));
                model[start as usize..(start + length) as usize].fill(false);
            }
            prop_assert_eq!(ranges.bytes(), model.iter().filter(|held| **held).count() as u64);
            prop_assert!(ranges.0.iter().all(|(start, end)| (*start..*end).all(|byte| model[byte as usize])));
        }
    }
}

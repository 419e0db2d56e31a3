//! An XFS with a reverse map: the walk only listed names, and everything else is read by the numbers of the inodes.
//!
//! `BULKSTAT` gives the status of the inodes. Then one sweep over the reverse map gives the owners of all blocks. If
//! the filesystem has far more files than the set, the files of the set are mapped one by one instead.

use super::census::{Leaving, Tally};
use super::device::{Device, Volume};
use super::freed::{Freed, Link};
use super::inodes::Inodes;
use super::maps;
use super::part::Part;
use super::references::Referrers;
use super::xfs::deleted::Deleted;
use super::xfs::extents::{self, Extents};
use super::xfs::files::{Files, Group};
use super::xfs::listed::{self, Listed};
use super::xfs::reverse_map::{self, Owned};
use crate::error::{Error, Result};
use crate::extents::bound::Bound;
use crate::monitor::{Amount, Monitor};
use crate::sys::xfs;
use std::path::PathBuf;

/// Sums up the inodes of a set, and the space that is freed with them. Also returns the number of files that could not
/// be examined. `None` if the inodes cannot be listed.
///
/// # Errors
/// If the run is cancelled.
pub(super) fn judge(
    device: &Device,
    tally: &mut Tally,
    inodes: &Inodes,
    (paths, link): (&[PathBuf], Option<&Link>),
    monitor: &dyn Monitor,
) -> Result<Option<(Freed, u64)>> {
    let volume = &*device.volume;
    monitor.phase("listing inodes", Some(Amount { files: inodes.count(), bytes: 0 }));
    let runs = |part: &Part| part.inodes.get(device.number).map_or(Vec::new(), |inodes| inodes.runs().collect());
    let lists: Vec<_> = tally.paths.iter().map(runs).collect();
    let Listed { totals, leaving, staying, files } = match listed::list(volume, &lists, inodes, monitor) {
        Err(error) if monitor.is_cancelled() => return Err(error),
        Err(_) => return Ok(None),
        Ok(listed) => listed,
    };
    drop(lists);
    tally.paths.iter_mut().chain([&mut tally.set]).zip(&totals).for_each(|(part, totals)| part.totals.add(totals));
    tally.leave(volume, Leaving { own: leaving, unmapped: leaving, ..Leaving::default() });
    let deleted = Deleted { inodes, staying: &staying, paths, link };
    monitor.phase("reading the reverse map", None);
    match reverse_map::read(volume, &files, tally.paths.len(), monitor)? {
        Some(owned) => {
            add_owned(volume, tally, &files, &owned);
            let Leaving { own, extents, unmapped, .. } = tally.leaving(volume);
            let freed = Freed { bytes: own + owned.leaving, ..Freed::default() };
            Ok(Some((freed.and(deleted.beside(volume, extents + owned.leaving_ranges, unmapped)), 0)))
        }
        None => {
            let Some(errors) = map(volume, tally, &files, monitor)? else { return Ok(None) };
            let freed = maps::judge(volume, tally, &deleted, monitor)?;
            // A file that could not be examined may take any amount.
            Ok(Some((Freed { bound: freed.bound.and(Bound::of(errors > 0, false)), ..freed }, errors)))
        }
    }
}

/// Adds what the reverse map showed.
fn add_owned(volume: &Volume, tally: &mut Tally, files: &Files, owned: &Owned) {
    for (group, sums) in files.groups.iter().zip(&owned.groups) {
        each_part(tally, group, |part| {
            part.totals.references += sums.extents;
            part.totals.exclusive_bytes = part.totals.exclusive_bytes.saturating_sub(sums.shared);
        });
        if group.leaves {
            tally.share(volume, sums.shared, (sums.unshared_extents, sums.unshared));
        }
    }
    let parts = tally.paths.iter_mut().chain([&mut tally.set]);
    parts.zip(&owned.shared).for_each(|(part, shared)| part.totals.shared_bytes += shared);
}

/// Passes the paths of a group, and the set, to `change`.
fn each_part(tally: &mut Tally, group: &Group, mut change: impl FnMut(&mut Part)) {
    group.paths.iter().for_each(|path| change(&mut tally.paths[*path]));
    change(&mut tally.set);
}

/// Maps all files one by one. Returns how many could not be read; each was reported. `None` if the inodes cannot be
/// listed.
fn map(volume: &Volume, tally: &mut Tally, files: &Files, monitor: &dyn Monitor) -> Result<Option<u64>> {
    monitor.phase("mapping files", Some(Amount { files: files.count, bytes: 0 }));
    let Ok(geometry) = xfs::geometry(&volume.fd) else { return Ok(None) };
    let block = u64::from(geometry.block_size);
    let runs: Vec<_> = files.runs().collect();
    let mut errors = 0;
    let mut batch = Vec::with_capacity(extents::BATCH);
    let mut map = |batch: &mut Vec<xfs::Inode>| {
        for (inode, found) in batch.iter().zip(extents::of_batch(volume, batch)) {
            let Some(group) = files.group_of(inode.number).map(|group| &files.groups[group as usize]) else { continue };
            match found {
                Ok(found) => add_extents(volume, tally, group, &found),
                Err(error) => {
                    monitor.problem(&error);
                    errors += 1;
                    // Nothing is known to be its own.
                    let disk = inode.blocks.saturating_mul(block);
                    each_part(tally, group, |part| {
                        part.totals.exclusive_bytes = part.totals.exclusive_bytes.saturating_sub(disk);
                    });
                    if group.leaves {
                        tally.share(volume, disk, (0, 0));
                    }
                }
            }
        }
        monitor.advance(Amount { files: batch.len() as u64, bytes: 0 });
        batch.clear();
        !monitor.is_cancelled()
    };
    let listed = xfs::inodes_in(&volume.fd, &runs, |inode| {
        batch.push(*inode);
        batch.len() < extents::BATCH || map(&mut batch)
    });
    if !map(&mut batch) {
        return Err(Error::interrupted());
    }
    Ok(listed.is_ok().then_some(errors))
}

/// Adds the extents of a file.
fn add_extents(volume: &Volume, tally: &mut Tally, group: &Group, found: &Extents) {
    let length = |is_wanted: bool| {
        let ranges = found.iter().filter(move |(_, is_shared)| *is_shared == is_wanted);
        ranges.map(|(range, _)| range.end - range.start).sum::<u64>()
    };
    let (shared, unshared) = (length(true), length(false));
    let by = Referrers { offset: 0, count: 1, leaving: u32::from(group.leaves) };
    each_part(tally, group, |part| {
        part.totals.references += found.len() as u64;
        part.totals.exclusive_bytes = part.totals.exclusive_bytes.saturating_sub(shared);
        let references = part.references(volume);
        for (range, _) in found.iter().filter(|(_, is_shared)| *is_shared) {
            references.add_range(volume.space.at(range.start), range.end - range.start, by);
        }
    });
    if group.leaves {
        let extents = found.iter().filter(|(_, is_shared)| !is_shared).count() as u64;
        tally.share(volume, shared, (extents, unshared));
    }
}

//! Maps of Btrfs's read-only subvolumes. The ranges are whole extents, since Btrfs frees an extent as a whole.
//!
//! `ctransid` shows every change of a subvolume, also by FIDEDUPERANGE, except that balancing moves extents. But then
//! the extent tree has no extent at the old address any more, and figures come only from extents that it has, and from
//! the references that it has to them.

use super::merge::{self, Piece};
use super::task::{Figures, Made, Subjects};
use super::types::{Identity, References, Tree, subvolume};
use crate::error::{Error, Result};
use crate::extents::address_space::AddressSpace;
use crate::extents::bound::Bound;
use crate::extents::intervals::Merged;
use crate::fs::filesystem::Filesystem;
use crate::monitor::{Amount, Monitor};
use crate::sys::btrfs::FileExtent;
use crate::sys::btrfs::tree::{self, EXTENT_DATA, INODE_ITEM, Key, Step};
use crate::usage::backrefs::{self, Held, Holders};
use crate::usage::device::Devices;
use crate::usage::inodes::Inodes;
use crate::usage::metadata;
use crate::usage::part::Part;
use crate::usage::references::Referrers;
use crate::usage::{Freed, Options, freed};
use rustix::io::Errno;
use std::collections::HashSet;
use std::path::PathBuf;

/// Inodes between two reports of progress.
const REPORT: u64 = 4096;

/// Makes the maps of the trees that are read-only subvolumes.
pub(super) fn make(trees: &[Tree<'_>], monitor: &dyn Monitor, each: &mut dyn FnMut(usize, Made)) -> Result<()> {
    for (number, subject) in trees.iter().enumerate() {
        let failed = |errno: Errno| Error::io("read the trees of the filesystem of", &subject.path, errno);
        let Some(identity) = subvolume(subject.fd) else { continue };
        let Identity::Btrfs { tree, .. } = identity else { continue };
        let space = AddressSpace::from(Filesystem::identify(subject.fd).map_err(failed)?).id();
        let mut ranges = Merged::new(space);
        let mut seen = 0;
        monitor.phase("mapping snapshots", Some(Amount { files: subject.files, bytes: 0 }));
        tree::search(subject.fd, tree, Key::first_of(0), Key::MAX, |item| {
            match item.key.kind {
                INODE_ITEM => {
                    seen += 1;
                    if seen % REPORT == 0 {
                        monitor.advance(Amount { files: REPORT, bytes: 0 });
                        if monitor.is_cancelled() {
                            return Step::Stop;
                        }
                    }
                }
                EXTENT_DATA => {
                    if let Some(part) = FileExtent::read(&item).and_then(FileExtent::data) {
                        let by = References { count: 1, inode: item.key.objectid };
                        ranges.add_range(space.at(part.extent), part.disk, by);
                    }
                }
                _ => {}
            }
            Step::Next
        })
        .map_err(failed)?;
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        each(number, Made { identity, inodes: Inodes::default(), ranges });
    }
    Ok(())
}

/// The figures of the set. All maps are of subvolumes as they are now.
pub(super) fn figures(subjects: Subjects<'_>, monitor: &dyn Monitor) -> Result<Figures> {
    let Subjects { fd, path, mut maps, set, beside, each, .. } = subjects;
    let trees: Vec<u64> = maps
        .iter()
        .map(|map| match map.header().identity {
            Identity::Btrfs { tree, .. } => tree,
            Identity::Xfs { .. } => 0,
        })
        .collect();
    let mut pieces: Vec<Piece> = Vec::new();
    let wanted = |piece: &Piece| piece.is_in_set || (each && set[piece.map as usize]);
    if let Err(unreadable) = merge::merge(&mut maps, &set, |piece| pieces.extend(Some(piece).filter(wanted))) {
        return Ok(Figures::Stale(vec![unreadable.map]));
    }
    let failed = |errno: Errno| Error::io("query the filesystem of", path, errno);
    let dev = rustix::fs::fstat(fd).map_err(failed)?.st_dev;
    let device = Devices::new(false, true).of(dev, fd, path)?;
    let volume = &device.volume;
    let judge = |trees: HashSet<u64>, pieces: &mut dyn Iterator<Item = &Piece>| -> Result<(Freed, bool)> {
        let mut part = Part::default();
        let references = part.references(volume);
        for piece in pieces {
            let count = u32::try_from(piece.count).unwrap_or(u32::MAX);
            let by = Referrers { offset: 0, count, leaving: count };
            references.add_range(volume.space.at(piece.start), piece.end - piece.start, by);
        }
        // Without access to the devices, only the data is counted.
        let holders: Holders = trees.iter().map(|tree| (*tree, Held::Whole)).collect();
        let doomed = metadata::doomed(volume, trees, monitor).ok();
        let found = backrefs::judge(volume, &holders, doomed.as_ref(), &mut [], &mut part, monitor)?;
        let metadata_bytes = doomed.as_ref().map_or(0, |doomed| doomed.bytes(found.items, found.entries, found.bytes));
        let (bytes, bound) = (found.bytes + metadata_bytes, Bound::of(true, doomed.is_some()));
        Ok((Freed { bytes, metadata_bytes, bound, ..Freed::default() }, found.undecided > 0))
    };
    // Files of a repository beside the trees are few, and may change at any time.
    let options = Options { sync: false, threads: Some(1) };
    let with_beside =
        |trees: Freed, paths: &[PathBuf]| Ok::<Freed, Error>(freed(paths, None, &options, monitor)?.0.and(trees));
    monitor.phase("asking who shares", None);
    let members = || (0..maps.len()).filter(|map| set[*map]);
    let (of_set, mut is_stale) =
        judge(members().map(|map| trees[map]).collect(), &mut pieces.iter().filter(|piece| piece.is_in_set))?;
    let paths: Vec<PathBuf> = members().flat_map(|map| beside[map].iter().cloned()).collect();
    let of_set = with_beside(of_set, &paths)?;
    let mut rows = vec![Freed::default(); maps.len()];
    if each {
        // Sorted by map, and within a map by address.
        pieces.retain(|piece| piece.is_alone);
        pieces.sort_by_key(|piece| piece.map);
        for map in members() {
            let number = map as u32;
            let first = pieces.partition_point(|piece| piece.map < number);
            let behind = pieces.partition_point(|piece| piece.map <= number);
            let (of_row, is_undecided) = judge(HashSet::from([trees[map]]), &mut pieces[first..behind].iter())?;
            is_stale |= is_undecided;
            rows[map] = with_beside(of_row, &beside[map])?;
        }
    }
    if is_stale {
        // Extents moved, and nothing shows in which trees.
        return Ok(Figures::Stale((0..maps.len()).collect()));
    }
    Ok(Figures::Known { rows, set: of_set, mapped: 0 })
}

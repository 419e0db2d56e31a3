//! Who holds an extent on XFS: from the reverse map if the filesystem has one, otherwise from the extents of every
//! inode, which are kept and searched in `extents::intervals`.

use super::merge::Merge;
use super::names::Names;
use super::owner::{Held, Owner, Part};
use super::subject::{Subject, anchor, unknown};
use crate::error::{Error, Result};
use crate::extents::address_space::{AddressSpace, SpaceId};
use crate::extents::intervals::{IntervalTree, Intervals, Overlap, Place};
use crate::extents::ranges::{self, Bytes};
use crate::fs::filesystem::Id;
use crate::fs::mounts::{self, Mount};
use crate::monitor::{Amount, Event, Monitor};
use crate::sys::getfsmap;
use crate::sys::{fiemap, xfs};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};

/// The most pieces that are kept for a filesystem without a reverse map: 160 MiB.
const MOST_PIECES: usize = 4 << 20;
const _: () = assert!(MOST_PIECES * IntervalTree::<u64>::BYTES_AN_INTERVAL <= 160 << 20);

/// One XFS filesystem.
pub(super) struct Filesystem {
    anchor: OwnedFd,
    mounts: Vec<Mount>,
    /// The address space of the data device.
    space: SpaceId,
    /// The device number that GETFSMAP uses.
    device: u32,
    source: Source,
    names: Names,
}

/// The source of the owners.
enum Source {
    ReverseMap,
    /// The extents of every inode have been, or will be, read.
    Scan(Scan),
}

struct Scan {
    /// The requested ranges: sorted and joined when they are used.
    wanted: Vec<Bytes>,
    /// The pieces found, by address and inode.
    pieces: IntervalTree<u64>,
    done: bool,
    missed: u64,
}

impl Filesystem {
    pub(super) fn new(file: Subject<'_>) -> Result<Self> {
        let failed = |errno: Errno| unknown(file.path, errno);
        let geometry = xfs::geometry(file.fd).map_err(failed)?;
        let stat = rustix::fs::fstat(file.fd).map_err(failed)?;
        // Checked for the privilege alone: without it GETFSMAP succeeds and reports every owner as unknown.
        xfs::inode(file.fd, stat.st_ino).map_err(failed)?;
        let space = AddressSpace::from(Id::Device(stat.st_dev)).id();
        let source = if geometry.reverse_map { Source::ReverseMap } else { Source::Scan(Scan::new(space)) };
        Ok(Filesystem {
            anchor: anchor(file)?,
            // Without /proc no names are found, and the owners are reported by number.
            mounts: mounts::of(file.fd).unwrap_or_default(),
            space,
            device: getfsmap::device_code(stat.st_dev),
            source,
            names: Names::default(),
        })
    }

    pub(super) fn announce(&mut self, file: Subject<'_>, monitor: &dyn Monitor) -> Result<()> {
        for extent in fiemap::extents(file.fd, false) {
            let extent = extent.map_err(|errno| unknown(file.path, errno))?;
            let Some(physical) = extent.physical else { continue };
            if monitor.is_cancelled() {
                return Err(Error::interrupted());
            }
            match &mut self.source {
                Source::Scan(scan) => scan.want(physical..physical.saturating_add(extent.length)),
                Source::ReverseMap => {
                    let overlaps = self.mapped(physical, extent.length).map_err(|errno| unknown(file.path, errno))?;
                    overlaps.iter().for_each(|overlap| self.names.want(overlap.by.file));
                }
            }
        }
        Ok(())
    }

    pub(super) fn resolve(&mut self, monitor: &dyn Monitor) -> Result<()> {
        if let Source::Scan(scan) = &mut self.source {
            scan.run(&self.anchor, self.space, monitor)?;
            scan.pieces.as_slice().iter().for_each(|piece| self.names.want(piece.by.file));
        }
        self.names.resolve(self.anchor.as_fd(), &self.mounts, monitor)
    }

    pub(super) fn list(&mut self, file: Subject<'_>, merge: &mut Merge<'_>, monitor: &dyn Monitor) -> Result<()> {
        let failed = |errno: Errno| unknown(file.path, errno);
        let stat = rustix::fs::fstat(file.fd).map_err(failed)?;
        if xfs::inode(file.fd, stat.st_ino).map_err(failed)?.is_some_and(|inode| inode.realtime) {
            return Err(unknown(file.path, Errno::OPNOTSUPP).hint("it lies on the realtime device"));
        }
        for extent in fiemap::extents(file.fd, false) {
            let extent = extent.map_err(failed)?;
            if monitor.is_cancelled() {
                return Err(Error::interrupted());
            }
            let Some(physical) = extent.physical else { continue };
            if !merge.is_new(physical, 0, extent.length) {
                continue;
            }
            let (mut overlaps, missed) = match &self.source {
                Source::ReverseMap => (self.mapped(physical, extent.length).map_err(failed)?, 0),
                Source::Scan(scan) => (scan.pieces.overlaps(self.space.at(physical), extent.length), scan.missed),
            };
            // The file itself is first; a fixed order lets ranges be joined.
            overlaps.sort_unstable_by_key(|overlap| (overlap.by.file != stat.st_ino, overlap.by));
            let owners = overlaps.into_iter().map(|Overlap { ahead, length, by: Place { file, logical } }| Owner {
                names: self.names.of(file),
                inode: file,
                subvolume: None,
                logical,
                physical: physical + ahead,
                length,
                part: Part::This,
            });
            let owners = owners.collect();
            merge.push(Held {
                logical: extent.logical,
                physical,
                length: extent.length,
                encoded: false,
                owners,
                missed,
            });
        }
        Ok(())
    }

    /// The entries of the reverse map in `length` bytes from a place on the device.
    fn mapped(&self, physical: u64, length: u64) -> rustix::io::Result<Vec<Overlap<u64>>> {
        let mut pieces = Intervals::new(self.space);
        for record in getfsmap::records(self.anchor.as_fd(), self.device, physical..physical.saturating_add(length)) {
            let record = record?;
            if let (getfsmap::Owner::Inode(inode), true) = (record.owner, record.is_file_data()) {
                let place = Place { file: inode, logical: record.offset };
                pieces.add(self.space.at(record.physical), record.length, place);
            }
        }
        Ok(pieces.overlaps(self.space.at(physical), length))
    }
}

impl Scan {
    fn new(space: SpaceId) -> Self {
        Scan { wanted: Vec::new(), pieces: IntervalTree::of(Intervals::new(space)), done: false, missed: 0 }
    }

    fn want(&mut self, range: Bytes) {
        match self.wanted.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.wanted.push(range),
        }
        self.done = false;
    }

    /// Reads the extents of every regular file and keeps the wanted ones.
    fn run(&mut self, fd: &OwnedFd, space: SpaceId, monitor: &dyn Monitor) -> Result<()> {
        if self.done || self.wanted.is_empty() {
            return Ok(());
        }
        let files = rustix::fs::fstatvfs(fd).map_or(0, |space| space.f_files.saturating_sub(space.f_ffree));
        monitor.event(Event::NoReverseMap { inodes: files });
        monitor.phase("looking for owners", Some(Amount { files, bytes: 0 }));
        let wanted = ranges::list(std::mem::take(&mut self.wanted));
        *self = Scan { wanted, ..Scan::new(space) };
        let mut pieces = Intervals::new(space);
        for inode in xfs::inodes(fd) {
            let inode = inode.map_err(|errno| Error::failed("list the inodes of an XFS").because(errno))?;
            if monitor.is_cancelled() {
                return Err(Error::interrupted());
            }
            monitor.advance(Amount { files: 1, bytes: 0 });
            let is_file = FileType::from_raw_mode(inode.mode) == FileType::RegularFile;
            if is_file && inode.blocks > 0 && !inode.realtime {
                // Deleted meanwhile: it holds nothing any more.
                let flags = OFlags::RDONLY | OFlags::NOATIME | OFlags::NONBLOCK;
                match xfs::open_inode(fd, inode.number, inode.generation, flags) {
                    Ok(file) => self.look(&file, inode.number, &mut pieces),
                    Err(Errno::STALE | Errno::NOENT) => {}
                    Err(_) => self.missed += 1,
                }
            }
        }
        self.pieces = IntervalTree::of(pieces);
        self.done = true;
        Ok(())
    }

    fn look(&mut self, file: &OwnedFd, inode: u64, pieces: &mut Intervals<Place<u64>>) {
        for extent in fiemap::extents(file, false) {
            let Ok(extent) = extent else {
                self.missed += 1;
                return;
            };
            let Some(physical) = extent.physical else { continue };
            let range = physical..physical.saturating_add(extent.length);
            if ranges::within(&self.wanted, &range).next().is_none() {
                continue;
            }
            if pieces.len() == MOST_PIECES {
                self.missed += 1;
                return;
            }
            let place = Place { file: inode, logical: extent.logical };
            pieces.add(pieces.space().at(physical), extent.length, place);
        }
    }
}

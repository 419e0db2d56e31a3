//! Who holds an extent on XFS: from the reverse map if the filesystem has one, otherwise from the extents of every
//! inode.

use super::merge::Merge;
use super::names::Names;
use super::owner::{Held, Owner, Part};
use super::subject::{Subject, anchor, unknown};
use crate::error::{Error, Result};
use crate::fs::mounts::{self, Mount};
use crate::monitor::{Amount, Event, Monitor};
use crate::sys::getfsmap;
use crate::sys::{fiemap, xfs};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};

/// The most pieces that are kept for a filesystem without a reverse map: 160 MiB.
const MOST_PIECES: usize = 4 << 20;

/// One XFS filesystem.
pub(super) struct Filesystem {
    anchor: OwnedFd,
    mounts: Vec<Mount>,
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

#[derive(Default)]
struct Scan {
    /// The requested ranges: sorted and joined when they are used.
    wanted: Vec<Range<u64>>,
    /// The pieces found, by address.
    pieces: Vec<Piece>,
    longest: u64,
    done: bool,
    missed: u64,
}

/// A range of the device, and its file and offset there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    physical: u64,
    length: u64,
    inode: u64,
    logical: u64,
}

impl Filesystem {
    pub(super) fn new(file: Subject<'_>) -> Result<Self> {
        let failed = |errno: Errno| unknown(file.path, errno);
        let geometry = xfs::geometry(file.fd).map_err(failed)?;
        let stat = rustix::fs::fstat(file.fd).map_err(failed)?;
        // Checked for the privilege alone: without it GETFSMAP succeeds and reports every owner as unknown.
        xfs::inode(file.fd, stat.st_ino).map_err(failed)?;
        let source = if geometry.reverse_map { Source::ReverseMap } else { Source::Scan(Scan::default()) };
        Ok(Filesystem {
            anchor: anchor(file)?,
            // Without /proc no names are found, and the owners are reported by number.
            mounts: mounts::of(file.fd).unwrap_or_default(),
            device: getfsmap::device_code(stat.st_dev),
            source,
            names: Names::default(),
        })
    }

    pub(super) fn announce(&mut self, file: Subject<'_>, monitor: &dyn Monitor) -> Result<()> {
        for extent in fiemap::extents(file.fd, false) {
            let extent = extent.map_err(|errno| unknown(file.path, errno))?;
            let Some(physical) = extent.physical else { continue };
            let range = physical..physical.saturating_add(extent.length);
            if monitor.is_cancelled() {
                return Err(Error::interrupted());
            }
            match &mut self.source {
                Source::Scan(scan) => scan.want(range),
                Source::ReverseMap => {
                    let pieces = mapped(self.anchor.as_fd(), self.device, range);
                    for piece in pieces.map_err(|errno| unknown(file.path, errno))? {
                        self.names.want(piece.inode);
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn resolve(&mut self, monitor: &dyn Monitor) -> Result<()> {
        if let Source::Scan(scan) = &mut self.source {
            scan.run(&self.anchor, monitor)?;
            scan.pieces.iter().for_each(|piece| self.names.want(piece.inode));
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
            let range = physical..physical.saturating_add(extent.length);
            let (mut pieces, missed) = match &self.source {
                Source::ReverseMap => (mapped(self.anchor.as_fd(), self.device, range).map_err(failed)?, 0),
                Source::Scan(scan) => (scan.within(range), scan.missed),
            };
            // The file itself is first; a fixed order lets ranges be joined.
            pieces.sort_unstable_by_key(|piece| (piece.inode != stat.st_ino, piece.inode, piece.logical));
            let owners = pieces.into_iter().map(|piece| Owner {
                names: self.names.of(piece.inode),
                inode: piece.inode,
                subvolume: None,
                logical: piece.logical,
                physical: piece.physical,
                length: piece.length,
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
}

/// The entries of the reverse map for a range of the device.
fn mapped(fd: impl std::os::fd::AsFd, device: u32, range: Range<u64>) -> rustix::io::Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    for record in getfsmap::records(fd, device, range.clone()) {
        let record = record?;
        if let (getfsmap::Owner::Inode(inode), true) = (record.owner, record.is_file_data()) {
            let piece = Piece { physical: record.physical, length: record.length, inode, logical: record.offset };
            pieces.extend(piece.clipped(&range));
        }
    }
    Ok(pieces)
}

impl Piece {
    /// The part of it in `range`.
    fn clipped(self, range: &Range<u64>) -> Option<Piece> {
        let start = self.physical.max(range.start);
        let end = self.physical.saturating_add(self.length).min(range.end);
        let logical = self.logical + (start - self.physical);
        (start < end).then(|| Piece { physical: start, length: end - start, logical, ..self })
    }
}

impl Scan {
    fn want(&mut self, range: Range<u64>) {
        match self.wanted.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.wanted.push(range),
        }
        self.done = false;
    }

    /// Reads the extents of every regular file and keeps the wanted ones.
    fn run(&mut self, fd: &OwnedFd, monitor: &dyn Monitor) -> Result<()> {
        if self.done || self.wanted.is_empty() {
            return Ok(());
        }
        let files = rustix::fs::fstatvfs(fd).map_or(0, |space| space.f_files.saturating_sub(space.f_ffree));
        monitor.event(Event::NoReverseMap { inodes: files });
        monitor.phase("looking for owners", Some(Amount { files, bytes: 0 }));
        self.wanted.sort_unstable_by_key(|range| range.start);
        self.wanted.dedup_by(|next, last| {
            let joins = next.start <= last.end;
            if joins {
                last.end = last.end.max(next.end);
            }
            joins
        });
        (self.pieces, self.longest, self.missed) = (Vec::new(), 0, 0);
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
                    Ok(file) => self.look(&file, inode.number),
                    Err(Errno::STALE | Errno::NOENT) => {}
                    Err(_) => self.missed += 1,
                }
            }
        }
        self.pieces.sort_unstable();
        self.done = true;
        Ok(())
    }

    fn look(&mut self, file: &OwnedFd, inode: u64) {
        for extent in fiemap::extents(file, false) {
            let Ok(extent) = extent else {
                self.missed += 1;
                return;
            };
            let Some(physical) = extent.physical else { continue };
            let end = physical.saturating_add(extent.length);
            let after = self.wanted.partition_point(|range| range.end <= physical);
            if self.wanted.get(after).is_none_or(|range| range.start >= end) {
                continue;
            }
            if self.pieces.len() == MOST_PIECES {
                self.missed += 1;
                return;
            }
            self.longest = self.longest.max(extent.length);
            self.pieces.push(Piece { physical, length: extent.length, inode, logical: extent.logical });
        }
    }

    /// The pieces found in a range.
    fn within(&self, range: Range<u64>) -> Vec<Piece> {
        let first = self.pieces.partition_point(|piece| piece.physical.saturating_add(self.longest) <= range.start);
        let near = self.pieces[first..].iter().take_while(|piece| piece.physical < range.end);
        near.filter_map(|piece| piece.clipped(&range)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_clipped_on_both_sides() {
        let piece = Piece { physical: 100, length: 50, inode: 1, logical: 1000 };
        let clipped = |range| piece.clipped(&range).map(|piece| (piece.physical, piece.length, piece.logical));
        assert_eq!(clipped(0..1000), Some((100, 50, 1000)));
        assert_eq!(clipped(120..130), Some((120, 10, 1020)));
        assert_eq!(clipped(0..100), None);
        assert_eq!(clipped(150..160), None);
    }

    #[test]
    fn what_was_found_is_looked_up_by_address_whatever_its_length() {
        let piece = |physical, length| Piece { physical, length, inode: physical, logical: 0 };
        let mut scan =
            Scan { pieces: vec![piece(0, 1000), piece(10, 5), piece(500, 5), piece(600, 5)], ..Scan::default() };
        scan.longest = 1000;
        let found = |range| scan.within(range).iter().map(|piece| piece.inode).collect::<Vec<_>>();
        assert_eq!(found(500..505), [0, 500]);
        assert_eq!(found(12..13), [0, 10]);
        assert_eq!(found(1000..2000), [0; 0]);
    }
}

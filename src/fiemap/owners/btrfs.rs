//! Who holds an extent on Btrfs: its back references, and the part of the extent that each of them holds.
//!
//! The kernel lists the files that refer to an extent. An extent is freed as a whole, so a file that holds only another
//! part of it matters too, and is reported as such. To find these parts, the file's own items are read from its tree.
//! The parts are offsets in the decoded bytes of one extent, not addresses, so they are not in `extents::intervals`.

use super::merge::Merge;
use super::owner::{Held, Owner, Part};
use super::subject::{Subject, anchor, unknown};
use super::subvolumes::Subvolumes;
use crate::error::{Error, Result};
use crate::extents::ranges;
use crate::monitor::Monitor;
use crate::sys::btrfs::FileExtent;
use crate::sys::btrfs::logical::{self, Reference};
use crate::sys::btrfs::tree::{self, EXTENT_DATA, Item, Key, Step};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// The number of cached pieces of extents, 48 bytes each: a file often refers to an extent again.
const REMEMBERED: usize = 1 << 20;

/// One Btrfs filesystem.
pub(super) struct Filesystem {
    anchor: OwnedFd,
    subvolumes: Subvolumes,
    extents: HashMap<u64, Rc<Extent>>,
    remembered: usize,
}

/// A data extent and all references to it.
#[derive(Default)]
struct Extent {
    /// Sorted by their offset in the extent.
    pieces: Vec<Piece>,
    longest: u64,
    missed: u64,
}

/// A part of an extent, as a file holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    root: u64,
    inode: u64,
    /// The offset in the file.
    logical: u64,
    /// The extent's address.
    extent: u64,
    /// Its offset in the extent, in bytes of content.
    within: u64,
    length: u64,
    encoded: bool,
}

impl Piece {
    /// `None` for holes and inline content.
    fn from_item(root: u64, item: &Item<'_>) -> Option<Piece> {
        let part = FileExtent::read(item)?.data()?;
        Some(Piece {
            root,
            inode: item.key.objectid,
            logical: part.logical,
            extent: part.extent,
            within: part.offset,
            length: part.length,
            encoded: part.compressed || part.foreign,
        })
    }

    fn end(&self) -> u64 {
        self.within.saturating_add(self.length)
    }

    fn physical(&self, within: u64) -> u64 {
        if self.encoded { self.extent } else { self.extent.saturating_add(within) }
    }

    /// The part of it that `other` holds too.
    fn clipped(&self, other: &Piece) -> Option<Piece> {
        let (start, end) = (self.within.max(other.within), self.end().min(other.end()));
        let logical = self.logical.saturating_add(start - self.within);
        (start < end).then(|| Piece { logical, within: start, length: end - start, ..*self })
    }
}

impl Filesystem {
    pub(super) fn new(file: Subject<'_>) -> Result<Self> {
        let anchor = anchor(file)?;
        Ok(Filesystem { subvolumes: Subvolumes::new(file.fd), anchor, extents: HashMap::new(), remembered: 0 })
    }

    pub(super) fn list(&mut self, file: Subject<'_>, merge: &mut Merge<'_>, monitor: &dyn Monitor) -> Result<()> {
        let failed = |errno: Errno| unknown(file.path, errno);
        let inode = rustix::fs::fstat(file.fd).map_err(failed)?.st_ino;
        let root = logical::subvolume_of(file.fd).map_err(failed)?;
        let (first, last) = (Key::new(inode, EXTENT_DATA, 0), Key::new(inode, EXTENT_DATA, u64::MAX));
        let mut told = HashSet::new();
        let mut result = Ok(());
        tree::search(file.fd, root, first, last, |item| {
            if let Some(piece) = Piece::from_item(root, &item) {
                result = self.piece(&piece, &mut told, merge, monitor).map_err(|error| match error {
                    Broken::Stopped => Error::interrupted(),
                    Broken::Call(errno) => failed(errno),
                });
            }
            if result.is_ok() { Step::Next } else { Step::Stop }
        })
        .map_err(failed)?;
        result
    }

    /// Handles one item of the file: who else holds it and, once for each extent, who holds only other parts.
    fn piece(
        &mut self,
        own: &Piece,
        told: &mut HashSet<u64>,
        merge: &mut Merge<'_>,
        monitor: &dyn Monitor,
    ) -> std::result::Result<(), Broken> {
        if monitor.is_cancelled() {
            return Err(Broken::Stopped);
        }
        if !merge.is_new(own.extent, own.within, own.length) {
            return Ok(());
        }
        let extent = self.extent(own)?;
        let mut owners = Vec::new();
        let mut pieces: Vec<_> = extent.near(own).filter_map(|piece| piece.clipped(own)).collect();
        // The file itself is first; a fixed order lets ranges be joined.
        let is_other = |piece: &Piece| (piece.root, piece.inode) != (own.root, own.inode);
        pieces.sort_unstable_by_key(|piece| (is_other(piece), piece.root, piece.inode, piece.logical));
        owners.extend(pieces.iter().map(|piece| self.owner(piece, Part::This)));
        let others = extent.pieces.len() > owners.len() && told.insert(own.extent);
        for piece in extent.elsewhere(own).filter(|_| others) {
            owners.push(self.owner(piece, Part::Other));
        }
        merge.push(Held {
            logical: own.logical,
            physical: own.physical(own.within),
            length: own.length,
            encoded: own.encoded,
            owners,
            missed: extent.missed,
        });
        Ok(())
    }

    fn owner(&mut self, piece: &Piece, part: Part) -> Owner {
        Owner {
            names: self.subvolumes.names(&self.anchor, piece.root, piece.inode),
            inode: piece.inode,
            subvolume: Some(piece.root),
            logical: piece.logical,
            physical: piece.physical(piece.within),
            length: piece.length,
            part,
        }
    }

    /// All references to the extent of this piece; none if the extent tree does not have the extent yet.
    fn extent(&mut self, own: &Piece) -> std::result::Result<Rc<Extent>, Broken> {
        let address = own.extent;
        if let Some(known) = self.extents.get(&address) {
            return Ok(known.clone());
        }
        let mut references = match logical::logical_to_inodes(&self.anchor, address) {
            Ok(references) => references,
            Err(Errno::NOENT) => return Ok(Rc::default()),
            Err(errno) => return Err(Broken::Call(errno)),
        };
        // Most extents belong to one file: then there is nothing to read.
        let itself = Reference { root: own.root, inode: own.inode, offset: own.logical };
        if references.found == [itself] && references.missed == 0 {
            return Ok(Rc::new(Extent { pieces: vec![*own], longest: own.length, missed: 0 }));
        }
        references.found.sort_unstable();
        let mut extent = Extent { missed: references.missed, ..Extent::default() };
        for same_file in references.found.chunk_by(|a, b| (a.root, a.inode) == (b.root, b.inode)) {
            self.read_pieces(address, same_file, &mut extent.pieces)?;
        }
        // A reference that is no longer in its file's tree holds nothing.
        extent.pieces.sort_by_key(|piece| (piece.within, piece.root, piece.inode, piece.logical));
        extent.longest = extent.pieces.iter().map(|piece| piece.length).max().unwrap_or(0);
        if self.remembered + extent.pieces.len() > REMEMBERED {
            self.extents.clear();
            self.remembered = 0;
        }
        self.remembered += extent.pieces.len();
        let extent = Rc::new(extent);
        self.extents.insert(address, extent.clone());
        Ok(extent)
    }

    /// The items for the references of one file, in the order of their offsets.
    fn read_pieces(
        &self,
        address: u64,
        references: &[Reference],
        pieces: &mut Vec<Piece>,
    ) -> std::result::Result<(), Broken> {
        let key = |reference: &Reference| Key::new(reference.inode, EXTENT_DATA, reference.offset);
        let (Some(first), Some(last)) = (references.first(), references.last()) else { return Ok(()) };
        let mut wanted = references.iter().map(key).peekable();
        let search = tree::search(&self.anchor, first.root, key(first), key(last), |item| {
            while wanted.next_if(|wanted| *wanted < item.key).is_some() {}
            if wanted.next_if_eq(&item.key).is_some() {
                pieces.extend(Piece::from_item(first.root, &item).filter(|piece| piece.extent == address));
            }
            wanted.peek().map_or(Step::Stop, |key| Step::Seek(*key))
        });
        match search {
            // The subvolume has just been deleted.
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(errno) => Err(Broken::Call(errno)),
        }
    }
}

/// The reason why a listing ended early.
enum Broken {
    Stopped,
    Call(Errno),
}

impl Extent {
    /// The pieces that may overlap `own`.
    fn near<'a>(&'a self, own: &Piece) -> impl Iterator<Item = &'a Piece> + use<'a> {
        let (start, end) = (own.within, own.end());
        let first = self.pieces.partition_point(|piece| piece.within.saturating_add(self.longest) <= start);
        self.pieces[first..].iter().take_while(move |piece| piece.within < end)
    }

    /// The pieces of other files that overlap no part of the extent held by `own`'s file.
    fn elsewhere<'a>(&'a self, own: &Piece) -> impl Iterator<Item = &'a Piece> + use<'a> {
        let file = (own.root, own.inode);
        let mut held = Vec::new();
        for piece in self.pieces.iter().filter(|piece| (piece.root, piece.inode) == file) {
            ranges::push(&mut held, piece.within..piece.end());
        }
        self.pieces.iter().filter(move |piece| {
            let is_elsewhere = ranges::within(&held, &(piece.within..piece.end())).next().is_none();
            (piece.root, piece.inode) != file && is_elsewhere
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(inode: u64, within: u64, length: u64) -> Piece {
        Piece { root: 5, inode, logical: 1000 + within, extent: 1 << 20, within, length, encoded: false }
    }

    #[test]
    fn parts_that_overlap_are_told_from_those_that_do_not() {
        let mut pieces = vec![piece(1, 0, 10), piece(1, 50, 10), piece(2, 5, 20), piece(3, 20, 10), piece(4, 0, 100)];
        pieces.sort_by_key(|piece| piece.within);
        let extent = Extent { pieces, longest: 100, missed: 0 };
        let own = piece(1, 0, 10);
        let near: Vec<_> = extent.near(&own).filter_map(|piece| piece.clipped(&own)).collect();
        let seen: Vec<_> = near.iter().map(|piece| (piece.inode, piece.within, piece.length, piece.logical)).collect();
        assert_eq!(seen, [(1, 0, 10, 1000), (4, 0, 10, 1000), (2, 5, 5, 1005)]);
        let elsewhere: Vec<_> = extent.elsewhere(&own).map(|piece| piece.inode).collect();
        assert_eq!(elsewhere, [3]);
    }
}

//! Where a range of a file lies: the one type for it.
//!
//! FIEMAP (`layout`, `map`) and the items of a Btrfs file (`layout`) are read into pieces; a dry run plans with them.
//! Lists of the pieces of many files are packed further: `intervals`. Pure, no I/O.

use super::address_space::{Address, SpaceId};
use super::extent::{Extent, ExtentFlags};
use std::ops::Range;

/// A range of a file that lies in one extent. Holes have no piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// The offset in the file.
    pub logical: u64,
    /// The length in the file.
    pub length: u64,
    /// The address of the extent: of the whole extent if known, otherwise of this part. `None` if the data has no
    /// address of its own.
    pub extent: Option<Address>,
    /// The offset in the extent, in its decoded bytes; unknown, and zero, for an encoded extent that only FIEMAP
    /// shows.
    pub offset: u64,
    /// The length of the extent on the disk.
    pub disk: u64,
    /// Whether another file, or another place of this one, holds it too.
    pub shared: bool,
    /// Whether the extent is compressed.
    pub encoded: bool,
    /// Whether the extent is allocated and never written: it reads as zeros.
    pub unwritten: bool,
    /// Whether `disk` is only the length in the file, because only root can read the length of a compressed extent.
    pub estimated: bool,
}

impl Piece {
    /// A written, plain piece that is an extent of its own.
    pub(crate) fn plain(logical: u64, length: u64, extent: Address) -> Piece {
        Piece {
            logical,
            length,
            extent: Some(extent),
            offset: 0,
            disk: length,
            shared: false,
            encoded: false,
            unwritten: false,
            estimated: false,
        }
    }

    /// The piece of an extent that FIEMAP reports for a file in this space. Without a space the piece has no address.
    pub(crate) fn of_extent(extent: &Extent, space: Option<SpaceId>) -> Piece {
        Piece {
            logical: extent.logical,
            length: extent.length,
            extent: space.zip(extent.physical).map(|(space, physical)| space.at(physical)),
            offset: 0,
            disk: extent.length,
            shared: extent.is_shared(),
            encoded: extent.flags.contains(ExtentFlags::ENCODED),
            unwritten: extent.flags.contains(ExtentFlags::UNWRITTEN),
            estimated: false,
        }
    }

    /// The offset in the file after its last byte.
    pub(crate) fn end(&self) -> u64 {
        self.logical.saturating_add(self.length)
    }

    /// The part of it within a range of the file.
    pub(crate) fn within(&self, from: u64, to: u64) -> Option<Piece> {
        let (start, end) = (self.logical.max(from), self.end().min(to));
        (start < end).then(|| Piece {
            logical: start,
            length: end - start,
            offset: self.offset.saturating_add(start - self.logical),
            ..*self
        })
    }

    /// An address for its first byte: the same for all pieces that hold that byte, and followed by the addresses of the
    /// next bytes. For an encoded extent it is an address after all plain ones.
    pub(crate) fn address(&self) -> Option<Address> {
        let extent = self.extent?;
        if !self.encoded {
            return Some(extent.plus(self.offset));
        }
        // A compressed extent takes at least a block, and decodes to at most 128 KiB.
        let number = (1 << 63 | extent.of_one_file().wrapping_mul(32)).wrapping_add(self.offset);
        Some(extent.space().at(number))
    }

    /// Whether both begin at the same byte on the disk. Pieces without an address never do.
    pub(crate) fn is_same_place(&self, other: &Piece) -> bool {
        self.address().zip(other.address()).is_some_and(|(one, two)| one.is_same_place(two))
    }

    /// The offset of [`Piece::address`] in this space.
    pub(crate) fn address_in(&self, space: SpaceId) -> Option<u64> {
        space.offset(self.address()?)
    }

    /// The offset of its extent in this space.
    pub(crate) fn extent_in(&self, space: SpaceId) -> Option<u64> {
        space.offset(self.extent?)
    }

    /// Where it begins on the disk; for an encoded piece, where its extent begins.
    pub(crate) fn start(&self) -> Option<Address> {
        self.extent.map(|extent| if self.encoded { extent } else { extent.plus(self.offset) })
    }

    /// The length that it takes on the disk; for an encoded piece, the length of its extent.
    pub(crate) fn weight(&self) -> u64 {
        if self.encoded { self.disk } else { self.length }
    }

    /// The range that it takes on the disk, in this space.
    pub(crate) fn place_in(&self, space: SpaceId) -> Option<Range<u64>> {
        let start = space.offset(self.start()?)?;
        Some(start..start.saturating_add(self.weight()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_piece_keeps_its_address() {
        let space = SpaceId::assumed();
        let whole = Piece::plain(50, 20, space.at(100));
        let part = Piece { offset: 3, ..whole }.within(55, 60).unwrap();
        assert_eq!((part.logical, part.length, part.offset, part.address_in(space)), (55, 5, 8, Some(108)));
        assert!(whole.within(70, 90).is_none());
    }

    #[test]
    fn pieces_of_two_filesystems_are_never_in_the_same_place() {
        let space = SpaceId::assumed();
        let other = crate::extents::address_space::AddressSpace::from(crate::fs::filesystem::Id::Device(2)).id();
        let piece = Piece::plain(0, 10, space.at(100));
        assert!(piece.is_same_place(&Piece::plain(5, 10, space.at(100))));
        assert!(!piece.is_same_place(&Piece::plain(0, 10, other.at(100))));
        assert_eq!((piece.place_in(space), piece.place_in(other)), (Some(100..110), None));
    }
}

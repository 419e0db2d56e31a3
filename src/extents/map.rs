//! The map of one file: all its extents by FIEMAP, the key that is equal for files that share all their data, and the
//! ranges in which two files are not on the same blocks.

use super::address_space::{Address, SpaceId};
use super::extent::{Extent, ExtentFlags};
use super::layout;
use super::piece::Piece;
use crate::sys::fiemap;
use crate::util::digest::prefix;
use rustix::io::Result;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

/// The extents of a file, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    pieces: Vec<Piece>,
    inline: bool,
    placeless: bool,
}

impl Map {
    /// The map of an open file in this space; `sync` writes its dirty pages first.
    pub(crate) fn of(fd: impl AsFd, space: SpaceId, sync: bool) -> Result<Map> {
        let fd = fd.as_fd();
        let mut map = Map::default();
        // Most files have few extents, and allocating memory for many takes longer than the call.
        if let Some(few) = fiemap::few_extents(fd, sync)? {
            few.iter().for_each(|extent| map.add(extent, space));
        } else {
            for extent in fiemap::extents(fd, false) {
                map.add(&extent?, space);
            }
        }
        if map.is_encoded() {
            map.weigh(fd, space);
        }
        Ok(map)
    }

    /// Sets the lengths of compressed extents on the disk. They are read from the items of the file, which have them at
    /// once; the extent tree has them only after the next commit.
    fn weigh(&mut self, fd: BorrowedFd<'_>, space: SpaceId) {
        let extents = layout::whole_extents(fd).unwrap_or_default();
        for piece in self.pieces.iter_mut().filter(|piece| piece.encoded) {
            match piece.extent_in(space).and_then(|address| extents.get(&address)) {
                Some(extent) => piece.disk = extent.disk,
                None => piece.estimated = true,
            }
        }
    }

    /// A map of these pieces.
    pub(crate) fn from_pieces(pieces: Vec<Piece>) -> Map {
        let placeless = pieces.iter().any(|piece| piece.extent.is_none());
        Map { pieces, inline: false, placeless }
    }

    fn add(&mut self, extent: &Extent, space: SpaceId) {
        self.inline |= extent.flags.contains(ExtentFlags::DATA_INLINE);
        self.placeless |= extent.physical.is_none();
        self.pieces.push(Piece::of_extent(extent, Some(space)));
    }

    /// The same extents, marked as not shared.
    #[must_use]
    pub(crate) fn unshared(mut self) -> Map {
        self.pieces.iter_mut().for_each(|piece| piece.shared = false);
        self
    }

    /// The map after these ranges get the extents of `source`. The ranges do not overlap and are in order.
    #[must_use]
    pub(crate) fn with_ranges_of(&self, source: &Map, ranges: &[Range<u64>]) -> Map {
        let (mut pieces, mut at) = (Vec::new(), 0);
        for range in ranges {
            pieces.extend(self.cut(at, range.start));
            pieces.extend(source.cut(range.start, range.end).map(|piece| Piece { shared: true, ..piece }));
            at = range.end;
        }
        pieces.extend(self.cut(at, u64::MAX));
        Map { pieces, inline: self.inline, placeless: self.placeless || source.placeless }
    }

    fn cut(&self, start: u64, end: u64) -> impl Iterator<Item = Piece> {
        let first = self.pieces.partition_point(|piece| piece.end() <= start);
        let rest = &self.pieces[first..];
        rest.iter().take_while(move |piece| piece.logical < end).filter_map(move |piece| piece.within(start, end))
    }

    /// The extents.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Whether there are so many extents that XFS may need blocks for their list: the smallest inode has room for two.
    pub(crate) fn has_many_extents(&self) -> bool {
        self.pieces.len() > 2
    }

    /// Whether the data lies beside the metadata.
    pub(crate) fn is_inline(&self) -> bool {
        self.inline
    }

    /// Whether any of it is shared.
    pub(crate) fn is_shared(&self) -> bool {
        self.pieces.iter().any(|piece| piece.shared)
    }

    /// Whether there is data and all of it is shared.
    pub(crate) fn is_wholly_shared(&self) -> bool {
        !self.pieces.is_empty() && self.pieces.iter().all(|piece| piece.shared)
    }

    /// Whether any of it is compressed.
    pub(crate) fn is_encoded(&self) -> bool {
        self.pieces.iter().any(|piece| piece.encoded)
    }

    /// The offset on the disk at which the file begins, to read files in the order of the disk.
    pub(crate) fn first_physical(&self) -> u64 {
        self.pieces.iter().find_map(Piece::start).map_or(0, Address::of_one_file)
    }

    /// Bytes on the disk.
    pub(crate) fn bytes(&self) -> u64 {
        let pieces = self.pieces.iter().filter(|piece| piece.extent.is_some());
        pieces.map(Piece::weight).fold(0, u64::saturating_add)
    }

    /// A number that is equal for two files of one filesystem and size exactly if all their data is in the same place.
    /// `None` if some data has no place: then nothing is known.
    pub(crate) fn key(&self) -> Option<u64> {
        if self.placeless {
            return None;
        }
        let mut hasher = blake3::Hasher::new();
        let mut put = |number: u64| {
            hasher.update(&number.to_le_bytes());
        };
        for piece in joined(&self.pieces) {
            put(piece.logical);
            put(piece.start().map_or(0, Address::of_one_file));
            put(piece.length);
            put(u64::from(piece.unwritten));
        }
        Some(prefix(hasher.finalize().as_bytes()))
    }

    /// The ranges of the file in which `other` is not in the same place, up to `size`. Ranges that are holes or
    /// reserved space in both files count as alike.
    pub(crate) fn unlike(&self, other: &Map, size: u64) -> Vec<Range<u64>> {
        let mut unlike: Vec<Range<u64>> = Vec::new();
        let (mut ours, mut theirs) = (self.pieces.iter().peekable(), other.pieces.iter().peekable());
        let mut at = 0;
        while at < size {
            while ours.next_if(|piece| piece.end() <= at).is_some() {}
            while theirs.next_if(|piece| piece.end() <= at).is_some() {}
            let (one, end_of_one) = standing_at(ours.peek().copied(), at);
            let (two, end_of_two) = standing_at(theirs.peek().copied(), at);
            let end = end_of_one.min(end_of_two).min(size);
            if !is_alike(one, two, at) {
                match unlike.last_mut() {
                    Some(last) if last.end == at => last.end = end,
                    _ => unlike.push(at..end),
                }
            }
            at = end;
        }
        unlike
    }
}

/// The piece at an offset, if there is one, and the end of that piece or of the hole.
pub(super) fn standing_at(piece: Option<&Piece>, at: u64) -> (Option<&Piece>, u64) {
    match piece {
        Some(piece) if piece.logical <= at => (Some(piece), piece.end()),
        Some(piece) => (None, piece.logical),
        None => (None, u64::MAX),
    }
}

pub(super) fn is_alike(one: Option<&Piece>, two: Option<&Piece>, at: u64) -> bool {
    let is_empty = |piece: Option<&Piece>| piece.is_none_or(|piece| piece.unwritten);
    match (one, two) {
        _ if is_empty(one) && is_empty(two) => true,
        (Some(one), Some(two)) => match (one.start(), two.start()) {
            // FIEMAP does not show where in a compressed extent the data begins: only whole pieces are known to be the
            // same.
            (Some(a), Some(b)) if one.encoded && two.encoded => {
                a.is_same_place(b) && (one.logical, one.length) == (two.logical, two.length)
            }
            (Some(a), Some(b)) => {
                one.encoded == two.encoded
                    && one.unwritten == two.unwritten
                    && a.plus(at - one.logical).is_same_place(b.plus(at - two.logical))
            }
            _ => false,
        },
        _ => false,
    }
}

/// The pieces, joined if they are adjacent in the file and on the disk: the kernel cuts them arbitrarily.
fn joined(pieces: &[Piece]) -> impl Iterator<Item = Piece> {
    let mut pieces = pieces.iter().copied().peekable();
    std::iter::from_fn(move || {
        let mut whole = pieces.next()?;
        while let Some(next) = pieces.next_if(|next| continues(&whole, next)) {
            whole.length += next.length;
        }
        Some(whole)
    })
}

fn continues(piece: &Piece, next: &Piece) -> bool {
    let follows = match (piece.start(), next.start()) {
        (Some(start), Some(next)) => start.plus(piece.length).is_same_place(next),
        (None, None) => true,
        _ => false,
    };
    piece.end() == next.logical && follows && !piece.encoded && !next.encoded && piece.unwritten == next.unwritten
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(logical: u64, address: u64, length: u64) -> Piece {
        Piece::plain(logical, length, SpaceId::assumed().at(address))
    }

    #[test]
    fn the_key_does_not_depend_on_how_the_kernel_cuts_extents() {
        let whole = Map::from_pieces(vec![piece(0, 100, 20)]);
        let cut = Map::from_pieces(vec![piece(0, 100, 8), Piece { shared: true, ..piece(8, 108, 12) }]);
        let other = Map::from_pieces(vec![piece(0, 100, 8), piece(8, 109, 12)]);
        assert_eq!(whole.key(), cut.key());
        assert_ne!(whole.key(), other.key());
        assert_eq!(Map::from_pieces(vec![Piece { extent: None, ..piece(0, 0, 5) }]).key(), None);
    }

    #[test]
    fn only_what_lies_elsewhere_is_unlike() {
        let one = Map::from_pieces(vec![piece(0, 100, 10), piece(20, 300, 10)]);
        let two = Map::from_pieces(vec![piece(0, 100, 5), piece(5, 200, 5), piece(20, 300, 10)]);
        assert_eq!(one.unlike(&two, 40).first(), Some(&(5..10)));
        assert_eq!(one.unlike(&two, 40).len(), 1);
        assert_eq!(one.unlike(&one, 40), []);
        assert_eq!(one.unlike(&Map::default(), 25), [0..10, 20..25]);
    }

    proptest! {
        #[test]
        fn unlike_is_what_a_look_at_each_byte_finds(
            one in prop::collection::vec((0u64..4, 1u64..8, 0u64..3), 0..8),
            two in prop::collection::vec((0u64..4, 1u64..8, 0u64..3), 0..8),
        ) {
            let build = |steps: &[(u64, u64, u64)]| {
                let mut at = 0;
                let mut pieces = Vec::new();
                for (gap, length, place) in steps {
                    at += gap;
                    pieces.push(piece(at, place * 1000 + at, *length));
                    at += length;
                }
                Map::from_pieces(pieces)
            };
            let place = |map: &Map, at: u64| map.pieces().iter().find(|p| (p.logical..p.end()).contains(&at))
                .and_then(|p| p.address_in(SpaceId::assumed()).map(|address| address + at - p.logical));
            let (one, two) = (build(&one), build(&two));
            let unlike = one.unlike(&two, 50);
            for at in 0..50 {
                let found = unlike.iter().any(|range| range.contains(&at));
                prop_assert_eq!(found, place(&one, at) != place(&two, at), "at {}", at);
            }
        }
    }
}

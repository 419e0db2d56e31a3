//! Finds the other files in scope that hold a place: ranges of files that share extents, found by their addresses. A
//! plan that moves one of these ranges must move all of them, or existing sharing would be undone.
//!
//! Only shared pieces are kept, in `extents::intervals`, up to a given number. If there are more, nothing shared is
//! moved.

use crate::extents::address_space::SpaceId;
use crate::extents::intervals::{IntervalTree, Intervals, Place};
use crate::extents::piece::Piece;

/// The bytes that a shared piece takes.
const BYTES_A_PIECE: u64 = IntervalTree::<u32>::BYTES_AN_INTERVAL as u64;
const _: () = assert!(BYTES_A_PIECE <= 48);

/// The shared pieces of all files in scope, while they are collected. Files are identified by their numbers.
#[derive(Debug)]
pub(super) struct Collection {
    pieces: Intervals<Place<u32>>,
    most: usize,
    overflown: bool,
}

impl Collection {
    /// No pieces yet, for places in this address space, and room for `memory` bytes of them.
    pub(super) fn new(space: SpaceId, memory: u64) -> Collection {
        Collection { pieces: Intervals::new(space), most: (memory / BYTES_A_PIECE) as usize, overflown: false }
    }

    /// Adds the shared pieces among the pieces of a file.
    pub(super) fn add(&mut self, file: u32, pieces: &[Piece]) {
        for piece in pieces.iter().filter(|piece| piece.shared) {
            if self.pieces.len() >= self.most {
                self.overflown = true;
                return;
            }
            let Some(address) = piece.address() else { continue };
            self.pieces.add(address, piece.length, Place { file, logical: piece.logical });
        }
    }
}

/// The shared pieces of all files in scope.
#[derive(Debug)]
pub(super) struct Holders {
    /// By the addresses of the pieces: see [`Piece::address`].
    pub(super) tree: IntervalTree<u32>,
    /// Whether there were more pieces than room; then it is unknown who shares.
    pub(super) is_overflown: bool,
}

impl Holders {
    /// No holders.
    pub(super) fn none(space: SpaceId) -> Holders {
        Holders { tree: IntervalTree::of(Intervals::new(space)), is_overflown: false }
    }

    /// The holders among all pieces that were collected.
    pub(super) fn of(collection: Collection) -> Holders {
        Holders { tree: IntervalTree::of(collection.pieces), is_overflown: collection.overflown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_than_there_is_room_for() {
        let mut pieces = Collection::new(SpaceId::assumed(), 400);
        let piece = Piece { shared: true, ..Piece::plain(0, 1, SpaceId::assumed().at(5)) };
        pieces.add(0, &[Piece { shared: false, ..piece }]);
        assert_eq!(pieces.pieces.len(), 0);
        pieces.add(0, &[piece; 100]);
        assert!(pieces.overflown && pieces.pieces.len() <= 10);
        assert!(Holders::of(pieces).is_overflown);
    }
}

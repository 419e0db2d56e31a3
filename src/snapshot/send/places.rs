//! Where the receiver has the data at an address of the sender: data that several files share is sent once.

use crate::extents::address_space::{Address, SpaceId};
use crate::extents::piece::Piece;
use crate::snapshot::stream::{Place, Side};
use std::collections::BTreeMap;

/// The most ranges that are remembered, with 56 bytes each.
const MOST: usize = 4 << 20;

/// Ranges of the sender's disk that the receiver has in a file.
#[derive(Default)]
pub(super) struct Places {
    ranges: BTreeMap<u64, Held>,
    files: Vec<(Side, Vec<u8>)>,
    /// All addresses are in one space.
    space: Option<SpaceId>,
}

struct Held {
    length: u64,
    file: u32,
    offset: u64,
}

impl Places {
    /// Places of addresses in this space.
    pub(super) fn new(space: Option<SpaceId>) -> Places {
        Places { space, ..Places::default() }
    }

    /// Remembers the data of a file that the receiver has, or will have before it is asked for.
    pub(super) fn add(&mut self, side: Side, path: &[u8], pieces: &[Piece]) {
        let mut file = None;
        for piece in pieces.iter().filter(|piece| piece.shared && !piece.encoded && !piece.unwritten) {
            if self.ranges.len() >= MOST {
                return;
            }
            let Some(address) = self.address(piece, piece.logical) else { continue };
            if self.ranges.range(..=address).next_back().is_some_and(|(start, held)| start + held.length > address) {
                continue;
            }
            let file = *file.get_or_insert_with(|| {
                self.files.push((side, path.to_vec()));
                (self.files.len() - 1) as u32
            });
            self.ranges.insert(address, Held { length: piece.length, file, offset: piece.logical });
        }
    }

    /// The place of the first bytes of a range of a piece, and how many bytes are there; or how many bytes are in no
    /// place.
    pub(super) fn find(&self, piece: &Piece, from: u64, to: u64) -> (Option<Place>, u64) {
        let length = to - from;
        if !piece.shared || piece.encoded {
            return (None, length);
        }
        let Some(address) = self.address(piece, from) else { return (None, length) };
        if let Some((start, held)) = self.ranges.range(..=address).next_back()
            && start + held.length > address
        {
            let within = address - start;
            let (side, path) = &self.files[held.file as usize];
            let place = Place { side: *side, path: path.clone(), offset: held.offset + within };
            return (Some(place), (held.length - within).min(length));
        }
        match self.ranges.range(address..).next() {
            Some((next, _)) => (None, (next - address).min(length)),
            None => (None, length),
        }
    }

    fn address(&self, piece: &Piece, logical: u64) -> Option<u64> {
        let extent: Address = piece.extent?;
        self.space?.offset(extent.plus(piece.offset + (logical - piece.logical)))
    }
}

//! Finds the other files in scope that hold a place: ranges of files that share extents, found by their addresses. A
//! plan that moves one of these ranges must move all of them, or existing sharing would be undone.
//!
//! Only shared pieces are kept, 48 bytes each, up to a given number. If there are more, nothing shared is moved.

use crate::extents::address_space::SpaceId;
use crate::extents::piece::Piece;
use std::ops::ControlFlow;

/// A shared piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    /// The number of the file.
    pub(super) file: u32,
    /// The offset in the file.
    pub(super) logical: u64,
    /// The address of its first byte.
    pub(super) address: u64,
    /// Its length.
    pub(super) length: u64,
}

impl Holder {
    fn end(&self) -> u64 {
        self.address.saturating_add(self.length)
    }
}

/// The shared pieces of all files in scope.
#[derive(Debug)]
pub(super) struct Holders {
    space: SpaceId,
    holders: Vec<Holder>,
    /// For the middle of each half, quarter, … of the list: the farthest end in that part.
    ends: Vec<u64>,
    most: usize,
    overflown: bool,
}

impl Holders {
    /// No holders yet, for places in this address space, and room for `memory` bytes of holders.
    pub(super) fn new(space: SpaceId, memory: u64) -> Holders {
        let most = memory / (size_of::<Holder>() + size_of::<u64>()) as u64;
        Holders { space, holders: Vec::new(), ends: Vec::new(), most: most as usize, overflown: false }
    }

    /// Adds the shared pieces among the pieces of a file.
    pub(super) fn add(&mut self, file: u32, pieces: &[Piece]) {
        for piece in pieces.iter().filter(|piece| piece.shared) {
            if self.holders.len() >= self.most {
                self.overflown = true;
                return;
            }
            let Some(address) = piece.address_in(self.space) else { continue };
            self.holders.push(Holder { file, logical: piece.logical, address, length: piece.length });
        }
    }

    /// Must be called after all pieces were added and before any search.
    pub(super) fn sort(&mut self) {
        self.holders.shrink_to_fit();
        self.holders.sort_unstable_by_key(|holder| (holder.address, holder.file, holder.logical));
        self.ends = vec![0; self.holders.len()];
        farthest(&self.holders, &mut self.ends);
    }

    /// Whether there were more holders than room; then it is unknown who shares.
    pub(super) fn is_overflown(&self) -> bool {
        self.overflown
    }

    /// The holders of any byte of a range of addresses.
    pub(super) fn of(&self, from: u64, to: u64) -> Vec<Holder> {
        let mut found = Vec::new();
        let _ = overlapping(&self.holders, &self.ends, from, to, &mut |holder| {
            found.push(*holder);
            ControlFlow::Continue(())
        });
        found
    }

    /// Whether any holder of a byte in a range of addresses satisfies `is_such`. Stops at the first.
    pub(super) fn any(&self, from: u64, to: u64, mut is_such: impl FnMut(&Holder) -> bool) -> bool {
        let mut each =
            |holder: &Holder| if is_such(holder) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        overlapping(&self.holders, &self.ends, from, to, &mut each).is_break()
    }
}

/// Fills in the farthest ends, and returns the farthest end of all.
fn farthest(holders: &[Holder], ends: &mut [u64]) -> u64 {
    let middle = holders.len() / 2;
    let Some(holder) = holders.get(middle) else { return 0 };
    let (left, right) = ends.split_at_mut(middle);
    let end = farthest(&holders[..middle], left).max(farthest(&holders[middle + 1..], &mut right[1..]));
    ends[middle] = end.max(holder.end());
    ends[middle]
}

fn overlapping(
    holders: &[Holder],
    ends: &[u64],
    from: u64,
    to: u64,
    each: &mut dyn FnMut(&Holder) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let middle = holders.len() / 2;
    let Some(holder) = holders.get(middle).filter(|_| ends[middle] > from) else { return ControlFlow::Continue(()) };
    overlapping(&holders[..middle], &ends[..middle], from, to, each)?;
    if holder.address < to {
        if holder.end() > from {
            each(holder)?;
        }
        overlapping(&holders[middle + 1..], &ends[middle + 1..], from, to, each)?;
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_that_overlap_are_found(
            places in prop::collection::vec((0..200_u64, 1..60_u64), 0..60), from in 0..220_u64, length in 1..50_u64
        ) {
            let mut holders = Holders::new(SpaceId::assumed(), 1 << 20);
            for (number, (extent, length)) in (0..).zip(&places) {
                let piece = Piece { shared: true, ..Piece::plain(0, *length, SpaceId::assumed().at(*extent)) };
                holders.add(number, &[piece, Piece { shared: false, ..piece }]);
            }
            holders.sort();
            let mut found: Vec<_> = holders.of(from, from + length).iter().map(|holder| holder.file).collect();
            found.sort_unstable();
            let overlaps = |(at, size): &(u64, u64)| *at < from + length && at + size > from;
            let naive: Vec<_> = (0..).zip(&places).filter(|(_, place)| overlaps(place)).map(|(n, _)| n).collect();
            prop_assert_eq!(holders.any(from, from + length, |holder| holder.file > 5), naive.iter().any(|n| *n > 5));
            prop_assert_eq!(found, naive);
            prop_assert!(!holders.is_overflown());
        }
    }

    #[test]
    fn there_are_never_more_than_there_is_room_for() {
        let mut holders = Holders::new(SpaceId::assumed(), 400);
        let piece = Piece { shared: true, ..Piece::plain(0, 1, SpaceId::assumed().at(5)) };
        holders.add(0, &[piece; 100]);
        assert!(holders.is_overflown() && holders.holders.len() <= 10);
    }
}

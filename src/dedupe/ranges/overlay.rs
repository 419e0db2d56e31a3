//! The plan of a dry run, range by range: the places where files would lie by now. The plan overlays the layouts that
//! the kernel reports, so a dry run makes the same decisions as a run that changes them. Pure.

use crate::extents::piece::Piece;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Bytes of one range, including its share of the tables.
const ENTRY: u64 = 128;
/// The minimum room, in bytes: a small index that misses matches must not make the plan worse than the run.
const LEAST: u64 = 16 << 20;
/// The addresses of planned extents start here. No device is that large.
const NEW: u64 = 1 << 60;

/// The place where a range of a file would lie.
#[derive(Clone, Copy, Debug)]
struct Moved {
    end: u64,
    /// `None`: it would be a hole.
    piece: Option<Piece>,
}

/// Ranges that would lie elsewhere.
#[derive(Debug)]
pub(super) struct Overlay {
    files: HashMap<u32, BTreeMap<u64, Moved>>,
    left: u64,
    next: u64,
}

impl Overlay {
    /// No ranges yet, and room for `memory` bytes of them.
    pub(super) fn new(memory: u64) -> Overlay {
        Overlay { files: HashMap::new(), left: memory.max(LEAST) / ENTRY, next: NEW }
    }

    /// The address of an extent of this length that would be written.
    pub(super) fn new_extent(&mut self, length: u64) -> u64 {
        let address = self.next;
        self.next += length.max(1);
        address
    }

    /// Whether an address is that of an extent that would be written.
    pub(super) fn is_new(address: u64) -> bool {
        address >= NEW
    }

    /// Plans that a range of a file has the places of these pieces, with offsets in the file itself; the rest of the
    /// range would be holes. `false`: there is no room for more.
    pub(super) fn set(&mut self, file: u32, range: Range<u64>, pieces: &[Piece]) -> bool {
        // The pieces, the holes around them, and the parts cut off on both sides.
        let needed = pieces.len() as u64 * 2 + 3;
        if range.is_empty() || self.left < needed {
            return range.is_empty();
        }
        let moved = self.files.entry(file).or_default();
        let before = moved.len() as u64;
        clear(moved, &range);
        let mut at = range.start;
        for piece in pieces.iter().filter_map(|piece| piece.within(range.start, range.end)) {
            if piece.logical > at {
                moved.insert(at, Moved { end: piece.logical, piece: None });
            }
            moved.insert(piece.logical, Moved { end: piece.end(), piece: Some(piece) });
            at = piece.end();
        }
        if at < range.end {
            moved.insert(at, Moved { end: range.end, piece: None });
        }
        self.left = (self.left + before).saturating_sub(moved.len() as u64);
        true
    }

    /// The pieces of a range of a file, as they would be.
    pub(super) fn apply(&self, file: u32, range: Range<u64>, pieces: Vec<Piece>) -> Vec<Piece> {
        let Some(moved) = self.files.get(&file) else { return pieces };
        let mut result = Vec::with_capacity(pieces.len());
        let mut present = pieces.iter().peekable();
        let mut take = |from: u64, to: u64, result: &mut Vec<Piece>| {
            while let Some(piece) = present.peek().filter(|piece| piece.logical < to) {
                result.extend(piece.within(from, to));
                if piece.end() > to {
                    break;
                }
                present.next();
            }
        };
        let mut at = range.start;
        for (&start, moved) in overlapping(moved, &range) {
            take(at, start.max(at), &mut result);
            result.extend(moved.piece.and_then(|piece| piece.within(range.start, range.end)));
            at = moved.end;
        }
        take(at, range.end, &mut result);
        result
    }
}

/// The entries that overlap the range.
fn overlapping<'a>(
    moved: &'a BTreeMap<u64, Moved>,
    range: &Range<u64>,
) -> impl Iterator<Item = (&'a u64, &'a Moved)> + use<'a> {
    let before = moved.range(..range.start).next_back().filter(|(_, moved)| moved.end > range.start);
    let first = before.map_or(range.start, |(start, _)| *start);
    moved.range(first..range.end.max(first))
}

/// Cuts a range out.
fn clear(moved: &mut BTreeMap<u64, Moved>, range: &Range<u64>) {
    let gone: Vec<_> = overlapping(moved, range).map(|(start, moved)| (*start, *moved)).collect();
    for (start, entry) in gone {
        moved.remove(&start);
        for (from, to) in [(start, range.start), (range.end, entry.end)] {
            if from < to {
                let piece = entry.piece.and_then(|piece| piece.within(from, to));
                moved.insert(from, Moved { end: to, piece });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::address_space::SpaceId;
    use proptest::prelude::*;

    fn piece(logical: u64, length: u64, extent: u64) -> Piece {
        Piece::plain(logical, length, SpaceId::assumed().at(extent))
    }

    proptest! {
        #[test]
        fn every_byte_lies_where_it_was_moved_last(
            steps in prop::collection::vec((0..60_u64, 1..20_u64, 0..4_u64, 0..8_u64), 0..12), from in 0..70_u64
        ) {
            let mut overlay = Overlay::new(0);
            // The file has a hole from 30 to 40.
            let present = [piece(0, 10, 1000), piece(10, 20, 2000), piece(40, 40, 3000)];
            let space = SpaceId::assumed();
            let byte = |pieces: &[Piece], at: u64| pieces.iter().find_map(|piece| piece.within(at, at + 1));
            let find = |pieces: &[Piece], at: u64| byte(pieces, at).and_then(|piece| piece.address_in(space));
            let mut model: Vec<_> = (0..80).map(|at| find(&present, at)).collect();
            for (number, (start, length, hole, pause)) in (1..).zip(steps) {
                let range = start..start + length;
                // A hole at the beginning of the range, and another hole further on.
                let new =
                    [piece(start + hole, pause, number * 10_000), piece(start + hole + pause + 1, 9, number * 20_000)];
                prop_assert!(overlay.set(5, range.clone(), &new));
                range.for_each(|at| model[at as usize] = find(&new, at));
            }
            let cut: Vec<_> = present.iter().filter_map(|piece| piece.within(from, 80)).collect();
            let now = overlay.apply(5, from..80, cut);
            prop_assert!(now.windows(2).all(|two| two[0].end() <= two[1].logical), "{:?}", now);
            for at in from..80 {
                prop_assert_eq!(find(&now, at), model[at as usize], "at {}", at);
            }
            let fields = |piece: &Piece| {
                let Piece { logical, length, offset, disk, shared, encoded, .. } = *piece;
                (logical, length, piece.extent_in(space), offset, disk, shared, encoded)
            };
            let other: Vec<_> = overlay.apply(6, 0..80, present.to_vec()).iter().map(fields).collect();
            prop_assert_eq!(other, present.iter().map(fields).collect::<Vec<_>>());
        }
    }

    #[test]
    fn there_is_never_more_than_there_is_room_for() {
        let mut overlay = Overlay::new(0);
        let set = (0..1 << 20).take_while(|at| overlay.set(1, at * 10..at * 10 + 5, &[piece(at * 10, 5, *at)]));
        let most = set.count() as u64;
        assert!(most > 100_000 && most * ENTRY <= LEAST);
        assert_eq!(overlay.files[&1].len() as u64, most);
    }
}

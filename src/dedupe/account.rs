//! What was really freed: counted from the extents that files held before and hold after, never from what the kernel
//! says it "deduped".
//!
//! A file that lets go of an extent frees it only if nobody else holds it. FIEMAP tells that by its flag at that moment,
//! so each file is looked at directly before and after it is handed to the kernel, and of several files that share an
//! extent the last one frees it. Files that share are therefore handed over one after the other ([`Account::watch`]
//! sees to it across threads); what is only its own needs no such care. What is let go of while still shared
//! is pinned: something that was not part of the run holds it.
//!
//! On XFS a block is free when nobody holds it. On Btrfs an extent is free when nobody holds any part of it.

use super::map::{Map, Piece};
use crate::filesystem::Kind;
use crate::mutex::lock;
use rustix::io::Result;
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard};

/// What a filesystem gives back when a part of an extent is let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Each block by itself (XFS).
    Blocks,
    /// Only whole extents (Btrfs).
    Extents,
}

impl Unit {
    /// That of a filesystem.
    pub fn of(kind: Kind) -> Unit {
        if kind == Kind::Btrfs { Unit::Extents } else { Unit::Blocks }
    }
}

/// The bytes freed so far, and those that something else holds.
#[derive(Debug, Default)]
pub struct Account {
    totals: Mutex<Totals>,
    /// Held while files that share extents are handed over.
    one_at_a_time: Mutex<()>,
}

#[derive(Debug, Default)]
struct Totals {
    freed: u64,
    pinned: Intervals,
    estimated: bool,
}

impl Account {
    /// Bytes freed.
    pub fn freed(&self) -> u64 {
        self.totals().freed
    }

    /// Bytes that were let go of, and that something else still holds.
    pub fn pinned(&self) -> u64 {
        self.totals().pinned.bytes()
    }

    /// Whether some of these bytes are of compressed extents whose length on the disk this user is not told.
    pub fn is_estimated(&self) -> bool {
        self.totals().estimated
    }

    /// Runs `submit`, which may make these files let go of extents, and books what they let go of. Gives what `submit`
    /// returned, and the maps of the files as they are now.
    ///
    /// No two of the files may hold the same extents: of those that do, each takes a call of its own.
    ///
    /// # Errors
    /// If a file cannot be mapped: before, and nothing was submitted.
    pub fn watch<T>(
        &self,
        files: &[BorrowedFd<'_>],
        unit: Unit,
        submit: impl FnOnce(&[Map]) -> T,
    ) -> Result<(T, Vec<Option<Map>>)> {
        let maps = || files.iter().map(|file| Map::of(file, false)).collect::<Result<Vec<_>>>();
        let mut before = maps()?;
        let alone = before.iter().any(Map::is_shared).then(|| lock(&self.one_at_a_time));
        if alone.is_some() {
            // Another thread may just have let go of the same extents.
            before = maps()?;
        }
        let result = submit(&before);
        let after: Vec<_> = files.iter().map(|file| Map::of(file, false).ok()).collect();
        for (before, after) in before.iter().zip(&after) {
            if let Some(after) = after {
                self.book(before, after, unit);
            }
        }
        drop(alone);
        Ok((result, after))
    }

    /// Books what one file let go of: it held `before`, it holds `after`.
    pub fn book(&self, before: &Map, after: &Map, unit: Unit) {
        let dropped = dropped(before, after, unit);
        let mut totals = self.totals();
        for piece in dropped {
            totals.estimated |= piece.estimated;
            let range = piece.physical..piece.physical.saturating_add(piece.weight);
            if piece.shared {
                totals.pinned.insert(range);
            } else {
                totals.freed += piece.weight;
                totals.pinned.remove(range);
            }
        }
    }

    /// Books extents that came free, and what had to be written for that.
    pub fn add(&self, freed: u64, written: u64) {
        let mut totals = self.totals();
        totals.freed = (totals.freed + freed).saturating_sub(written);
    }

    /// Books a range on the disk that something else still holds.
    pub fn pin(&self, range: Range<u64>) {
        self.totals().pinned.insert(range);
    }

    fn totals(&self) -> MutexGuard<'_, Totals> {
        lock(&self.totals)
    }
}

/// A range on the disk that a file no longer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dropped {
    pub(super) physical: u64,
    pub(super) weight: u64,
    pub(super) shared: bool,
    pub(super) estimated: bool,
}

impl Dropped {
    fn new(range: Range<u64>, piece: &Piece) -> Dropped {
        let (physical, weight) = (range.start, range.end - range.start);
        Dropped { physical, weight, shared: piece.shared, estimated: piece.estimated }
    }
}

/// What is in `before` and not in `after`, each byte of the disk once.
pub(super) fn dropped(before: &Map, after: &Map, unit: Unit) -> Vec<Dropped> {
    let mut held = Intervals::default();
    after.pieces().iter().filter_map(Piece::place).for_each(|place| held.insert(place));
    let mut pieces: Vec<_> = before.pieces().iter().filter(|piece| piece.place().is_some()).collect();
    pieces.sort_unstable_by_key(|piece| piece.place().map(|place| place.start));
    let mut dropped = Vec::new();
    for piece in pieces {
        let Some(place) = piece.place() else { continue };
        if piece.encoded || unit == Unit::Extents {
            if !held.touches(&place) {
                dropped.push(Dropped::new(place.clone(), piece));
            }
        } else {
            for gap in held.gaps(place.clone()) {
                dropped.push(Dropped::new(gap, piece));
            }
        }
        // The same place twice in one file counts once.
        held.insert(place);
    }
    dropped
}

/// A set of bytes as ranges that neither touch nor overlap.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    ranges: BTreeMap<u64, u64>,
}

impl Intervals {
    /// How many bytes are in it.
    pub(super) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&found, &its_end)) = self.ranges.range(..=end).next_back() {
            if its_end < start {
                break;
            }
            self.ranges.remove(&found);
            (start, end) = (start.min(found), end.max(its_end));
        }
        self.ranges.insert(start, end);
    }

    pub(super) fn remove(&mut self, range: Range<u64>) {
        while let Some((&found, &its_end)) = self.ranges.range(..range.end).next_back() {
            if its_end <= range.start {
                break;
            }
            self.ranges.remove(&found);
            if its_end > range.end {
                self.ranges.insert(range.end, its_end);
            }
            if found < range.start {
                self.ranges.insert(found, range.start);
            }
        }
    }

    /// Whether any byte of the range is in it.
    pub(super) fn touches(&self, range: &Range<u64>) -> bool {
        self.ranges.range(..range.end).next_back().is_some_and(|(_, end)| *end > range.start)
    }

    /// The parts of the range that are not in it.
    pub(super) fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        let first = self.ranges.range(..=at).next_back().map_or(at, |(start, _)| *start);
        for (&start, &end) in self.ranges.range(first..range.end) {
            if start > at {
                gaps.push(at..start);
            }
            at = at.max(end);
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(logical: u64, physical: u64, length: u64, shared: bool) -> Piece {
        let (encoded, unwritten, estimated) = (false, false, false);
        Piece { logical, physical: Some(physical), length, weight: length, shared, encoded, unwritten, estimated }
    }

    #[test]
    fn what_nobody_else_held_is_freed_and_the_rest_is_pinned() {
        let account = Account::default();
        let before = Map::from_pieces(vec![piece(0, 0, 10, false), piece(10, 50, 10, true)]);
        let after = Map::from_pieces(vec![piece(0, 100, 20, true)]);
        account.book(&before, &after, Unit::Blocks);
        assert_eq!((account.freed(), account.pinned()), (10, 10));
        // The last one that held the shared extent lets go of it.
        let before = Map::from_pieces(vec![piece(10, 50, 10, false)]);
        account.book(&before, &after, Unit::Blocks);
        assert_eq!((account.freed(), account.pinned()), (20, 0));
    }

    #[test]
    fn a_part_of_an_extent_is_freed_where_blocks_are_and_not_where_extents_are() {
        let before = Map::from_pieces(vec![piece(0, 0, 10, false)]);
        let after = Map::from_pieces(vec![piece(0, 100, 6, true), piece(6, 6, 4, false)]);
        let weights = |unit| dropped(&before, &after, unit).iter().map(|d| d.weight).sum::<u64>();
        assert_eq!(weights(Unit::Blocks), 6);
        assert_eq!(weights(Unit::Extents), 0);
    }

    #[test]
    fn a_block_that_a_file_held_twice_is_freed_once() {
        let before = Map::from_pieces(vec![piece(0, 0, 10, false), piece(10, 0, 10, false)]);
        let after = Map::from_pieces(vec![]);
        assert_eq!(dropped(&before, &after, Unit::Blocks).len(), 1);
    }

    proptest! {
        #[test]
        fn intervals_are_a_set_of_bytes(steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 0..40)) {
            let mut intervals = Intervals::default();
            let mut bytes = [false; 100];
            for (insert, start, length) in steps {
                let range = start..start + length;
                bytes[start as usize..(start + length) as usize].fill(insert);
                if insert { intervals.insert(range) } else { intervals.remove(range) }
            }
            prop_assert_eq!(intervals.bytes(), bytes.iter().filter(|byte| **byte).count() as u64);
            let gaps: u64 = intervals.gaps(10..90).iter().map(|gap| gap.end - gap.start).sum();
            prop_assert_eq!(gaps, bytes[10..90].iter().filter(|byte| !**byte).count() as u64);
            for (number, byte) in bytes.iter().enumerate() {
                prop_assert_eq!(intervals.touches(&(number as u64..number as u64 + 1)), *byte);
            }
        }
    }
}

//! The state needed to apply runs on either filesystem, and its counters.

use super::extent_lists::ExtentLists;
use super::files::Files;
use super::holders::Holders;
use super::run::{Run, Source};
use super::scratch::Scratch;
use super::share;
use crate::dedupe::account::Account;
use crate::dedupe::catalogue::FileId;
use crate::dedupe::run::add;
use crate::extents::address_space::{Address, SpaceId};
use crate::extents::intervals::{Overlap, Place};
use crate::extents::piece::Piece;
use crate::extents::ranges::{Bytes, RangeSet};
use crate::monitor::Pinned;
use rustix::io::Result;
use std::collections::BTreeMap;

/// The state of one run over one filesystem.
pub(super) struct Context<'a> {
    pub(super) run: &'a crate::dedupe::run::Run<'a>,
    /// The account of this filesystem.
    pub(super) account: &'a Account,
    pub(super) files: Files<'a>,
    pub(super) lists: ExtentLists,
    pub(super) scratch: Scratch<'a>,
    pub(super) holders: Holders,
    pub(super) seen: Seen,
    pub(super) block: u64,
    pub(super) min_run: u64,
    /// Equal bytes that were not shared, by reason.
    pub(super) left: BTreeMap<Pinned, u64>,
    /// Whether something that was found was not shared since this was last cleared.
    pub(super) is_unsettled: bool,
}

/// Shared places with data that was read, or that equals data that was read.
pub(super) struct Seen {
    space: SpaceId,
    places: RangeSet,
    left: u64,
}

impl Seen {
    /// No places yet, and room for `most` of them: memory must not grow with the files' extents.
    pub(super) fn new(space: SpaceId, most: u64) -> Seen {
        Seen { space, places: RangeSet::default(), left: most }
    }

    pub(super) fn add(&mut self, piece: &Piece) {
        if let Some(place) = self.place(piece).filter(|_| self.left > 0) {
            self.left -= 1;
            self.places.insert(place);
        }
    }

    pub(super) fn contains(&self, piece: &Piece) -> bool {
        self.place(piece).is_some_and(|place| self.places.gaps(place).is_empty())
    }

    /// The addresses of a piece's bytes.
    fn place(&self, piece: &Piece) -> Option<Bytes> {
        let start = piece.address_in(self.space)?;
        Some(start..start.saturating_add(piece.length))
    }
}

/// A part of a run that lies in one piece on each side, with the two pieces in different places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// The piece of the file, cut to the part.
    pub(super) piece: Piece,
    pub(super) source: Source,
    /// The piece of the source; `None` for a hole.
    pub(super) from: Option<Piece>,
}

impl Context<'_> {
    /// The parts of a run that would free something, or help to free something.
    pub(super) fn parts(&mut self, file: u32, run: Run) -> Result<Vec<Part>> {
        let end = run.start + run.length;
        let here = self.files.pieces(file, run.start, end, usize::MAX, false)?;
        let there = match run.source {
            Source::Zeros => Vec::new(),
            // If the source cannot be read, that is no error of this file.
            Source::File { file, offset } => {
                match self.files.pieces(file, offset, offset + run.length, usize::MAX, false) {
                    Ok(pieces) => pieces,
                    Err(_) => return Ok(Vec::new()),
                }
            }
        };
        Ok(parts(&here, &there, run))
    }

    /// Counts a range that was found elsewhere but is not shared.
    pub(super) fn leave(&mut self, why: Pinned, bytes: u64) {
        *self.left.entry(why).or_default() += bytes;
        self.is_unsettled = true;
    }

    /// Counts bytes that are shared now, or would be in a dry run.
    pub(super) fn count_shared(&self, source: Source, file: u32, bytes: u64) {
        add(&self.run.counters.ranges, bytes);
        if self.run.dry_run && bytes > 0 {
            let path = |file: u32| self.run.catalogue.path(FileId(file));
            match source {
                Source::File { file: source, .. } => self.run.monitor.sharing(&path(source), &path(file), bytes),
                // A hole has no name.
                Source::Zeros => self.run.monitor.sharing(&path(file), &path(file), bytes),
            }
        }
    }

    /// Shares a range of a file with its source, and returns the number of bytes that are shared now. A dry run plans
    /// it.
    pub(super) fn share(&mut self, source: Source, file: u32, start: u64, length: u64) -> u64 {
        let shared = if self.run.dry_run {
            share::plan(source, (file, start), length, self.run, self.account, &mut self.files)
        } else {
            share::share(source, (file, start), length, self.run, &mut self.files, &mut self.scratch)
        };
        self.count_shared(source, file, shared);
        self.is_unsettled |= shared < length;
        shared
    }

    /// The other holders of `length` bytes from an address, except the range `but` of a file. Only holders that
    /// are still at the same place as when the run began.
    pub(super) fn still_holding(&mut self, at: Address, length: u64, but: (u32, u64, u64)) -> Vec<Overlap<u32>> {
        let mut found = Vec::new();
        for Overlap { ahead, length, by: Place { file, logical } } in self.holders.tree.overlaps(at, length) {
            let (except, start, end) = but;
            if file == except && logical < end && logical + length > start {
                continue;
            }
            let Ok(now) = self.files.pieces(file, logical, logical + length, usize::MAX, false) else { continue };
            found.extend(now.iter().filter_map(|piece| {
                let ahead = ahead + (piece.logical - logical);
                let stays = piece.address()?.is_same_place(at.plus(ahead));
                stays.then_some(Overlap { ahead, length: piece.length, by: Place { file, logical: piece.logical } })
            }));
        }
        found
    }
}

/// Walks a run's pieces on both sides.
fn parts(here: &[Piece], there: &[Piece], run: Run) -> Vec<Part> {
    let offset = match run.source {
        Source::Zeros => 0,
        Source::File { offset, .. } => offset,
    };
    let mut parts = Vec::new();
    let mut theirs = there.iter().peekable();
    for piece in here {
        let mut at = piece.logical;
        while at < piece.end() {
            let from = offset + (at - run.start);
            while theirs.next_if(|piece| piece.end() <= from).is_some() {}
            let (from_piece, until) = match theirs.peek() {
                Some(piece) if piece.logical <= from => (piece.within(from, u64::MAX), piece.end()),
                Some(piece) => (None, piece.logical),
                None => (None, u64::MAX),
            };
            let end = piece.end().min(at.saturating_add(until - from));
            if let Some(part) = piece.within(at, end) {
                let from = from_piece.and_then(|piece| piece.within(from, from + part.length));
                if !from.is_some_and(|from| from.is_same_place(&part)) {
                    parts.push(Part { piece: part, source: run.source.advanced(at - run.start), from });
                }
            }
            at = end;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(start: u64, steps: &[(u64, u64, u64)], end: u64) -> Vec<Piece> {
        let mut at = start;
        let mut pieces = Vec::new();
        for (gap, length, place) in steps {
            at += gap;
            let piece = Piece::plain(at, *length, SpaceId::assumed().at(1000 + place * 5));
            pieces.extend(piece.within(start, end));
            at += length;
        }
        pieces
    }

    proptest! {
        #[test]
        fn parts_are_what_a_look_at_each_byte_finds(
            one in prop::collection::vec((0..4_u64, 1..8_u64, 0..6_u64), 0..8),
            two in prop::collection::vec((0..4_u64, 1..8_u64, 0..6_u64), 0..8),
        ) {
            let run = Run { source: Source::File { file: 1, offset: 100 }, start: 10, length: 40 };
            let (here, there) = (pieces(10, &one, 50), pieces(100, &two, 140));
            let parts = parts(&here, &there, run);
            let address = |pieces: &[Piece], at: u64| {
                let byte = pieces.iter().find_map(|piece| piece.within(at, at + 1));
                byte.and_then(|piece| piece.address_in(SpaceId::assumed()))
            };
            for at in 0..40 {
                let (a, b) = (address(&here, 10 + at), address(&there, 100 + at));
                let part = parts.iter().find(|part| (part.piece.logical..part.piece.end()).contains(&(10 + at)));
                prop_assert_eq!(part.is_some(), a.is_some() && a != b, "at {}", at);
                if let Some(part) = part {
                    let into = 10 + at - part.piece.logical;
                    let space = SpaceId::assumed();
                    prop_assert_eq!(part.piece.address_in(space).unwrap() + into, a.unwrap());
                    prop_assert_eq!(part.from.map(|from| from.address_in(space).unwrap() + into), b);
                    let Source::File { offset, .. } = part.source else { panic!() };
                    prop_assert_eq!(offset + into, 100 + at);
                }
            }
        }
    }
}

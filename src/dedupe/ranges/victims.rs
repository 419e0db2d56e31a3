//! Btrfs extents with parts that were found elsewhere: their references, the found parts, and the rest.

use super::context::{Context, Part};
use super::overlay::Overlay;
use super::plan::{Outside, Weighed};
use super::run::{Run, Source, disjoint};
use crate::dedupe::catalogue::FileId;
use crate::dedupe::whole_extents;
use crate::extents::address_space::{Address, SpaceId};
use crate::extents::bound::Bound;
use crate::extents::intervals::Place;
use crate::extents::layout::join_neighbours;
use crate::extents::piece::Piece;
use crate::extents::ranges::RangeSet;
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::AsFd as _;

/// All pieces of a file are examined, up to this number. With more pieces, only those near the runs are examined, and
/// only root can find out whether there are others.
const MOST_PIECES: usize = 1 << 18;
/// The longest decoded length of a compressed extent.
const LONGEST_ENCODED: u64 = 128 << 10;

/// A range of a file that refers to an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// The number of the file.
    pub(super) file: u32,
    /// The offset in the file.
    pub(super) logical: u64,
    /// The offset in the extent.
    pub(super) offset: u64,
    /// The length. The last reference of a file ends at the file's end, which may be within a block.
    pub(super) length: u64,
}

impl Reference {
    /// Its part within a range of the extent: the offset in the file, and the length.
    pub(super) fn within(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let (start, end) = (self.offset.max(from), (self.offset + self.length).min(to));
        (start < end).then(|| (self.logical + (start - self.offset), end - start))
    }
}

/// A range of an extent that was found elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Where it begins in the extent.
    pub(super) offset: u64,
    /// How long it is.
    pub(super) length: u64,
    /// Where it was found, in the file that was read.
    pub(super) at: u64,
    /// Where the same bytes are.
    pub(super) source: Source,
    /// The extent in which they lie there, if they lie in one.
    pub(super) lies_in: Option<Address>,
}

/// An extent.
#[derive(Debug)]
pub(super) struct Victim {
    /// Its address.
    pub(super) extent: Address,
    /// The bytes that it takes on the disk.
    pub(super) disk: u64,
    /// Whether it is compressed.
    pub(super) encoded: bool,
    /// All known references.
    pub(super) references: Vec<Reference>,
    /// The ranges found elsewhere, each byte once.
    pub(super) found: Vec<Found>,
    covered: RangeSet,
    shared: bool,
}

impl Victim {
    /// The ranges of the extent that were not found elsewhere, each within one reference, each byte once.
    pub(super) fn rest(&self) -> Vec<(Reference, Range<u64>)> {
        let mut covered = RangeSet::default();
        for found in &self.found {
            covered.insert(found.offset..found.offset + found.length);
        }
        let mut rest = Vec::new();
        for reference in &self.references {
            let range = reference.offset..reference.offset + reference.length;
            for gap in covered.gaps(range) {
                rest.push((*reference, gap.clone()));
                covered.insert(gap);
            }
        }
        rest
    }

    /// The approximate number of bytes that `length` bytes of the extent take on the disk, scaled like the extent as a
    /// whole.
    pub(super) fn on_disk(&self, length: u64, block: u64) -> u64 {
        let decoded = self.references.iter().map(|reference| reference.offset + reference.length).max().unwrap_or(0);
        if !self.encoded || decoded == 0 {
            return length.next_multiple_of(block);
        }
        let scaled = u128::from(length) * u128::from(self.disk) / u128::from(decoded);
        (scaled.min(length.into()).max(1) as u64).next_multiple_of(block)
    }

    /// Bytes that were found elsewhere.
    pub(super) fn found_bytes(&self) -> u64 {
        self.found.iter().map(|found| found.length).sum()
    }

    /// Whether any of the references still refers to the extent.
    pub(super) fn is_held(&self, context: &mut Context<'_>) -> bool {
        let space = context.account.space();
        let Some(start) = space.offset(self.extent) else { return false };
        let place = start..start + self.disk.max(1);
        let lies_there = |piece: &Piece| piece.extent_in(space).is_some_and(|extent| place.contains(&extent));
        self.references.iter().any(|Reference { file, logical, length, .. }| {
            let pieces = context.files.pieces(*file, *logical, logical + length, usize::MAX, false);
            pieces.is_ok_and(|pieces| pieces.iter().any(lies_there))
        })
    }

    /// Whether each block holds the same number of bytes for all references to it: the kernel shares a partial block at
    /// a file's end only with the end of another file.
    fn is_movable(&self, block: u64) -> bool {
        let end = |reference: &Reference| reference.offset + reference.length;
        let ragged = self.references.iter().filter(|reference| !end(reference).is_multiple_of(block));
        ragged.into_iter().all(|ragged| {
            let last = end(ragged) / block * block;
            let with_it = self.references.iter().filter(|other| other.offset <= last && end(other) > last);
            let mut ends = with_it.map(|other| end(other).min(last + block));
            ends.all(|other| other == end(ragged))
        })
    }

    /// The facts for the decision.
    pub(super) fn weigh(&self, outside: Outside, block: u64) -> Weighed {
        let rest = self.rest().iter().map(|(_, range)| self.on_disk(range.end - range.start, block)).sum();
        Weighed { disk: self.disk, rest, outside, movable: self.is_movable(block) }
    }
}

/// The references to an extent, sorted by their offsets in it.
pub(super) struct ByOffset<'v> {
    references: Vec<&'v Reference>,
    /// The farthest end up to each reference.
    ends: Vec<u64>,
}

impl<'v> ByOffset<'v> {
    pub(super) fn of(victim: &'v Victim) -> ByOffset<'v> {
        let mut references: Vec<_> = victim.references.iter().collect();
        references.sort_by_key(|reference| reference.offset);
        let farthest = |end: &mut u64, reference: &&Reference| {
            *end = (*end).max(reference.offset + reference.length);
            Some(*end)
        };
        let ends = references.iter().scan(0, farthest).collect();
        ByOffset { references, ends }
    }

    /// The references to any part of a range of the extent.
    pub(super) fn touching(&self, from: u64, to: u64) -> impl Iterator<Item = &'v Reference> {
        let first = self.ends.partition_point(|&end| end <= from);
        let rest = self.references[first..].iter().take_while(move |reference| reference.offset < to);
        rest.copied().filter(move |reference| reference.offset + reference.length > from)
    }
}

/// The extents of a file that runs overlap, in the order of the file, each with whether something outside the scope
/// holds it.
pub(super) fn gather(file: u32, runs: &[Run], context: &mut Context<'_>) -> Result<Vec<(Victim, Outside)>> {
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return Ok(Vec::new()) };
    let mut pieces = context.files.pieces(file, 0, u64::MAX, MOST_PIECES, false)?;
    let is_whole = pieces.len() < MOST_PIECES;
    if !is_whole {
        pieces = context.files.pieces(file, first.start, last.start + last.length, usize::MAX, false)?;
    }
    let exact = context.files.is_exact(file);
    if !exact {
        // Only root can find out which part of a compressed extent a piece is.
        pieces.retain(|piece| !piece.encoded);
        join_neighbours(&mut pieces);
    }
    let mut parts = Vec::new();
    for run in runs {
        for run in disjoint(*run, file, context.min_run) {
            parts.extend(context.parts(file, run)?);
        }
    }
    let mut victims = collect(file, &pieces, &parts, context.run.catalogue.size(FileId(file)), context.account.space());
    let mut outsiders = Vec::with_capacity(victims.len());
    for victim in &mut victims {
        let others = add_other_files(file, victim, context);
        outsiders.push(outside(file, victim, others, exact, is_whole, context));
    }
    Ok(victims.into_iter().zip(outsiders).collect())
}

/// Groups the found ranges and the references by extent.
fn collect(file: u32, pieces: &[Piece], parts: &[Part], size: u64, space: SpaceId) -> Vec<Victim> {
    let mut victims: Vec<Victim> = Vec::new();
    let mut numbers: HashMap<u64, usize> = HashMap::new();
    let mut at = 0;
    for part in parts {
        while pieces.get(at).is_some_and(|piece| piece.end() <= part.piece.logical) {
            at += 1;
        }
        // A part may be cut more finely, or its file may have changed since the pieces were listed.
        for piece in pieces[at..].iter().take_while(|piece| piece.logical < part.piece.end()) {
            let Some(cut) = piece.within(part.piece.logical, part.piece.end().min(size)) else { continue };
            let Some((extent, place)) = cut.extent.zip(cut.extent_in(space)) else { continue };
            let number = *numbers.entry(place).or_insert_with(|| {
                let Piece { disk, encoded, .. } = *piece;
                let (references, found, covered) = Default::default();
                victims.push(Victim { extent, disk, encoded, references, found, covered, shared: false });
                victims.len() - 1
            });
            let victim = &mut victims[number];
            for gap in victim.covered.gaps(cut.offset..cut.offset + cut.length) {
                let ahead = cut.logical - part.piece.logical + (gap.start - cut.offset);
                let found = Found {
                    offset: gap.start,
                    length: gap.end - gap.start,
                    at: part.piece.logical + ahead,
                    source: part.source.advanced(ahead),
                    lies_in: part.from.and_then(|from| from.extent),
                };
                victim.found.push(found);
                victim.covered.insert(gap);
            }
        }
    }
    for piece in pieces {
        let number = piece.extent_in(space).and_then(|extent| numbers.get(&extent));
        let Some(victim) = number.map(|&number| &mut victims[number]) else { continue };
        victim.shared |= piece.shared;
        let length = piece.length.min(size.saturating_sub(piece.logical));
        if length > 0 {
            victim.references.push(Reference { file, logical: piece.logical, offset: piece.offset, length });
        }
    }
    victims
}

/// Adds the references of other files in scope. Returns whether there are any.
fn add_other_files(file: u32, victim: &mut Victim, context: &mut Context<'_>) -> bool {
    if !victim.shared || context.holders.is_overflown {
        return false;
    }
    let whole = Piece { encoded: victim.encoded, ..Piece::plain(0, victim.disk, victim.extent) };
    let Some(base) = whole.address() else { return false };
    let length = if victim.encoded { LONGEST_ENCODED } else { victim.disk };
    let mut any = false;
    for held in context.still_holding(base, length, (file, 0, u64::MAX)) {
        let Place { file, logical } = held.by;
        let size = context.run.catalogue.size(FileId(file));
        let length = held.length.min(size.saturating_sub(logical));
        if length > 0 {
            victim.references.push(Reference { file, logical, offset: held.ahead, length });
            any = true;
        }
    }
    any
}

/// Who holds an extent besides the known references.
fn outside(
    file: u32,
    victim: &Victim,
    others: bool,
    exact: bool,
    is_whole: bool,
    context: &mut Context<'_>,
) -> Outside {
    if context.account.space().offset(victim.extent).is_some_and(Overlay::is_new) {
        return outside_planned(victim, context);
    }
    if exact {
        return match count_references(file, victim.extent, context) {
            Ok(all) if all <= victim.references.len() as u64 => Outside::Nothing,
            Ok(_) => Outside::Something,
            Err(_) => Outside::Unknown,
        };
    }
    match (victim.shared, others) {
        (false, _) if is_whole => Outside::Nothing,
        // The kernel also marks an extent as shared if one file holds it in two parts.
        (true, false) if victim.references.len() == 1 => Outside::Something,
        _ => Outside::Unknown,
    }
}

/// The same for an extent that only a plan has written. Several references from one file are taken for all of them.
fn outside_planned(victim: &Victim, context: &Context<'_>) -> Outside {
    match (victim.shared, victim.references.len()) {
        (false, _) => Outside::Nothing,
        (true, 1) => Outside::Something,
        (true, _) => {
            context.account.limit(Bound::About);
            Outside::Nothing
        }
    }
}

/// The number of references to any part of an extent, in the whole filesystem.
fn count_references(file: u32, extent: Address, context: &mut Context<'_>) -> Result<u64> {
    let opened = context.files.get(file).ok_or(Errno::NOENT)?;
    let place = context.account.space().offset(extent).ok_or(Errno::INVAL)?;
    whole_extents::references(opened.as_fd(), place)
}

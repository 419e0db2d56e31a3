//! Lets a clone of the source share equal data with the base where the two have separate copies.
//!
//! XFS frees single blocks, so there all equal data is shared. Btrfs frees only whole extents: a single block of a
//! clone keeps its whole extent, even after the source is gone. So on Btrfs the decision is made for each extent. If
//! less than half of an extent is new, the new part is rewritten and the rest shared with the base, and the clone
//! releases the extent. Otherwise the extent stays shared with the source, and costs nothing while the source has it.

use super::list::NewList;
use super::look::{Base, Look, Options, grain};
use super::windows::{Window, compare};
use crate::content::copy::CopyError;
use crate::content::hash::tree::Whole;
use crate::content::rewrite;
use crate::extents::address_space::AddressSpace;
use crate::extents::layout::{self, Way};
use crate::extents::piece::Piece;
use crate::extents::ranges::{self, Bytes};
use crate::fs::direct_io::Once;
use crate::fs::fidedupe::submit;
use crate::monitor::Amount;
use crate::util::mutex::{self, lock};
use rustix::fs::{Advice, fadvise};
use rustix::io::Result;
use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;

/// How much is compared before equal data is shared. It is still in memory then.
const STRIDE: u64 = 64 << 20;
/// The longest wait for the rest of an extent before a decision. Extents of Btrfs are at most half as long.
const PATIENCE: u64 = 256 << 20;
/// If a stride has this many ranges, they are not looked up one by one.
const MANY: usize = 256;
/// The most data in a compressed extent (`BTRFS_MAX_UNCOMPRESSED`).
const MOST_ENCODED: u64 = 128 << 10;

/// The extents of the two files.
#[derive(Clone, Copy, Debug)]
pub struct Extents<'a> {
    /// Whether the filesystem frees only whole extents, as Btrfs does.
    pub freed_whole: bool,
    /// The ranges in which the two files may have different extents, in order and disjoint. `None`: not known.
    pub differing: Option<&'a [Bytes]>,
}

/// The result, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// Data of the file.
    pub data: u64,
    /// Its holes and never-written ranges.
    pub holes: u64,
    /// Data that existed twice and is shared now.
    pub joined: u64,
    /// Data rewritten to release extents.
    pub written: u64,
    /// Data read from the file and the base.
    pub read: u64,
    /// BLAKE3 of the content, if requested.
    pub hash: Option<[u8; 32]>,
}

/// Shares ranges of `file` with equal ranges of the base at the same offsets. `file` is a private clone of `size`
/// bytes, open for reading and writing. Its content does not change. With a list of the base, its unchanged extents are
/// not read.
///
/// # Errors
/// Errors of the kernel; `CANCELED` when the monitor asks to stop. A range that the kernel refuses to share is not an
/// error.
pub fn share(
    file: BorrowedFd<'_>,
    size: u64,
    base: &Base<'_>,
    extents: Extents<'_>,
    list: Option<&NewList>,
    options: &Options<'_>,
) -> std::result::Result<Shared, CopyError> {
    let space = AddressSpace::common(file, base.file).map_err(CopyError::Source)?;
    let mut run = Run {
        file,
        size,
        base,
        ways: (Way::finest(file, space, extents.freed_whole), Way::finest(base.file, space, extents.freed_whole)),
        options,
        waiting: Vec::new(),
        differing: Vec::new(),
        held: HashSet::new(),
        done: Shared::default(),
    };
    let once = Once::begin(file, 0..size);
    let look = Look {
        file,
        size,
        base: Some(base),
        grain: grain(list, Some(base)),
        once: &once,
        compared_again: true,
        dense: Mutex::default(),
        options,
    };
    let mut whole = Whole::default();
    let (mut start, mut dropped) = (0, 0);
    while start < size {
        // Without a hash, strides without data are skipped: the work depends on the data.
        if !options.hashed {
            let data = look.next_data(start).map_err(CopyError::Source)?;
            let next = data.map_or(size, |data| (data / STRIDE * STRIDE).max(start));
            run.done.holes += next - start;
            options.monitor.advance(Amount { files: 0, bytes: next - start });
            start = next;
            if start >= size {
                break;
            }
        }
        let stride = start..(start + STRIDE).min(size);
        let (alike, apart) = run.layouts(&stride, extents.differing).map_err(CopyError::Source)?;
        let found = Mutex::new((0, Vec::new()));
        let each = |window: &Window<'_>| {
            if let Some(list) = list {
                list.write(window.number, window.values);
            }
            let mut found = lock(&found);
            found.0 += ranges::length(window.data);
            found.1.extend_from_slice(window.differing);
            Ok(())
        };
        let read = compare(&look, &stride, &alike, &mut whole, &each)?;
        let (data, differing) = mutex::into_inner(found);
        let differing = ranges::list(differing);
        run.done.read += read.file + read.base;
        run.done.data += data;
        run.done.holes += stride.end - stride.start - data;
        if extents.freed_whole {
            run.decide(apart, differing, stride.end)?;
        } else {
            let mut places = Vec::new();
            apart.iter().for_each(|piece| ranges::push(&mut places, piece.logical..piece.end()));
            run.join(&ranges::subtract(&places, &differing));
        }
        // Nobody else uses the clone or the last snapshot, so the pages are dropped. Pages of undecided extents stay in
        // memory, where the kernel compares them ten times as fast.
        let behind = run.waiting.iter().map(|piece| piece.logical).min().unwrap_or(stride.end);
        if let Some(length) = NonZeroU64::new(behind.saturating_sub(dropped)) {
            for file in [file, base.file] {
                let _ = fadvise(file, dropped, Some(length), Advice::DontNeed);
            }
        }
        dropped = behind.max(dropped);
        start = stride.end;
    }
    if extents.freed_whole {
        // The end of the file may have been skipped.
        run.decide(Vec::new(), Vec::new(), size)?;
    }
    run.done.hash = whole.finish();
    if let Some((list, hash)) = list.zip(run.done.hash) {
        list.finish(&hash);
    }
    Ok(run.done)
}

struct Run<'a> {
    file: BorrowedFd<'a>,
    size: u64,
    base: &'a Base<'a>,
    /// How both layouts are read. Without an address space, no address of the file is known to be one of the base.
    ways: (Way, Way),
    options: &'a Options<'a>,
    /// Undecided pieces.
    waiting: Vec<Piece>,
    /// The differing ranges of undecided pieces.
    differing: Vec<Bytes>,
    /// Extents that the base has too. Releasing them frees nothing.
    held: HashSet<u64>,
    done: Shared,
}

impl Run<'_> {
    /// The ranges of a stride that are already shared with the base, and the other pieces.
    fn layouts(&mut self, stride: &Bytes, differing: Option<&[Bytes]>) -> Result<(Vec<Bytes>, Vec<Piece>)> {
        let whole = std::slice::from_ref(stride);
        let differing = differing.map(|differing| ranges::within(differing, stride).collect::<Vec<_>>());
        let (mut alike, mut apart) = (Vec::new(), Vec::new());
        for range in differing.as_deref().filter(|ranges| ranges.len() < MANY).unwrap_or(whole) {
            let mine = layout::all_pieces(self.file, &mut self.ways.0, range)?;
            let Some(space) = self.ways.0.space else {
                apart.extend(mine);
                continue;
            };
            let theirs = layout::all_pieces(self.base.file, &mut self.ways.1, range)?;
            if self.ways.1.is_exact() {
                self.held.extend(theirs.iter().filter_map(|piece| piece.extent_in(space)));
            }
            let (same, other) = split(&mine, &theirs);
            alike.extend(same);
            apart.extend(other);
        }
        alike.extend(differing.iter().flat_map(|differing| ranges::subtract(whole, differing)));
        Ok((ranges::list(alike), apart))
    }

    /// Shares equal ranges.
    fn join(&mut self, ranges: &[Bytes]) {
        let block = self.options.block;
        for range in ranges {
            // A partial block at the end can be shared only if both files end there.
            let is_whole = range.end.is_multiple_of(block) || (range.end == self.size && self.base.size == self.size);
            let end = if is_whole { range.end } else { range.end / block * block };
            if range.start >= end {
                continue;
            }
            let length = end - range.start;
            let answer = submit((self.base.file, range.start), length, &[(self.file, range.start)]);
            if answer.iter().all(Option::is_none) {
                self.done.joined += length;
            }
        }
    }

    /// Decides on the extents that are completely known, after the file was compared up to `end`.
    fn decide(&mut self, apart: Vec<Piece>, differing: Vec<Bytes>, end: u64) -> std::result::Result<(), CopyError> {
        self.waiting.extend(apart);
        differing.into_iter().for_each(|range| ranges::push(&mut self.differing, range));
        let mut pieces = self.waiting.clone();
        if !self.ways.0.is_exact() {
            layout::join_neighbours(&mut pieces);
        }
        let extent = |piece: &Piece| self.ways.0.space.and_then(|space| piece.extent_in(space));
        let mut extents: BTreeMap<(Option<u64>, bool), Vec<usize>> = BTreeMap::new();
        for (number, piece) in pieces.iter().enumerate() {
            extents.entry((extent(piece), piece.encoded)).or_default().push(number);
        }
        let mut is_waiting = vec![false; pieces.len()];
        let (mut equal, mut new) = (Vec::new(), Vec::new());
        for numbers in extents.values() {
            let parts = || numbers.iter().map(|&number| &pieces[number]);
            let first = parts().map(|piece| piece.logical).min().unwrap_or(0);
            let may_go_on = parts().any(|piece| {
                let span = if piece.encoded { MOST_ENCODED } else { piece.disk };
                piece.logical.saturating_sub(piece.offset).saturating_add(span) > end
            });
            if end < self.size && may_go_on && end - first < PATIENCE {
                numbers.iter().for_each(|&number| is_waiting[number] = true);
                continue;
            }
            let mut places: Vec<_> = parts().map(|piece| piece.logical..piece.end()).collect();
            places.sort_unstable_by_key(|place| place.start);
            let unlike: Vec<_> = places.iter().flat_map(|place| ranges::within(&self.differing, place)).collect();
            let disk = parts().map(|piece| if piece.encoded { piece.length } else { piece.disk });
            let whole = disk.max().unwrap_or(0).max(ranges::length(&places));
            let is_held = parts().any(|piece| extent(piece).is_some_and(|extent| self.held.contains(&extent)));
            if !is_held && rewrite::pays(ranges::length(&unlike), whole) {
                equal.extend(ranges::subtract(&places, &unlike));
                new.extend(unlike);
            }
        }
        let first = is_waiting.iter().position(|waiting| *waiting).map_or(end, |number| self.waiting[number].logical);
        let mut waits = is_waiting.iter();
        self.waiting.retain(|_| waits.next().copied().unwrap_or(false));
        self.differing = ranges::subtract(&self.differing, std::slice::from_ref(&(0..first)));
        if self.held.len() > (PATIENCE / STRIDE * (STRIDE / self.options.block)) as usize {
            self.held.clear();
        }
        self.join(&ranges::list(equal));
        new.sort_unstable_by_key(|range| range.start);
        for range in &new {
            rewrite::in_place(self.file, range)?;
            self.done.written += range.end - range.start;
        }
        Ok(())
    }
}

/// The ranges where two layouts are equal, and the other pieces of the first layout.
fn split(mine: &[Piece], theirs: &[Piece]) -> (Vec<Bytes>, Vec<Piece>) {
    let (mut alike, mut apart) = (Vec::new(), Vec::new());
    let mut next = 0;
    for piece in mine {
        let mut at = piece.logical;
        while let Some(other) = theirs.get(next).filter(|other| other.logical < piece.end()) {
            if let Some(common) = other.within(at, piece.end())
                && let Some(own) = piece.within(common.logical, common.end())
                && own.is_same_place(&common)
            {
                apart.extend(piece.within(at, common.logical));
                ranges::push(&mut alike, common.logical..common.end());
                at = common.end();
            }
            if other.end() > piece.end() {
                break;
            }
            next += 1;
        }
        apart.extend(piece.within(at, piece.end()));
    }
    (alike, apart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::address_space::SpaceId;

    fn piece(logical: u64, length: u64, extent: u64) -> Piece {
        Piece::plain(logical, length, SpaceId::assumed().at(extent))
    }

    #[test]
    fn what_lies_in_the_same_place_is_told_from_the_rest() {
        let mine = [piece(0, 100, 1000), piece(100, 50, 5000), piece(200, 20, 7000)];
        let theirs = [piece(0, 40, 1000), piece(40, 20, 9000), piece(60, 60, 1060), piece(200, 30, 7000)];
        let (alike, apart) = split(&mine, &theirs);
        assert_eq!(alike, [0..40, 60..100, 200..220]);
        let apart: Vec<_> = apart.iter().map(|piece| (piece.logical, piece.length)).collect();
        assert_eq!(apart, [(40, 20), (100, 50)]);
    }
}

//! The bytes that a run freed on one filesystem. They are counted by comparing the extents that files held before with
//! those they hold after, never by adding up the bytes that the kernel reports as deduplicated.
//!
//! A file that drops an extent frees it only if nobody else holds the extent. FIEMAP's shared flag shows this only for
//! the moment of the call. Each file is therefore mapped directly before and after it is submitted to the kernel, and
//! the last of several files that share an extent frees it. For the same reason, files that share extents are submitted
//! one after the other, across threads too ([`Account::watch`]); extents that are not shared need no such care. An
//! extent that is dropped while it is still shared is pinned: a file outside the run holds it.
//!
//! On XFS a block is free when nobody holds it. On Btrfs an extent is free when nobody holds any part of it.
//!
//! Addresses are meaningful within one filesystem only, so each filesystem has its own account.

use super::whole_extents;
use crate::extents::address_space::{Address, SpaceId};
use crate::extents::bound::Bound;
use crate::extents::map::Map;
use crate::extents::piece::Piece;
use crate::extents::ranges::{RangeSet, length};
use crate::fs::filesystem::Kind;
use crate::fs::status::Status;
use crate::util::mutex::lock;
use rustix::io::Result;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard};

/// The unit in which a filesystem frees space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Each block by itself (XFS).
    Blocks,
    /// Only whole extents (Btrfs).
    Extents,
}

impl Unit {
    /// The unit of a filesystem.
    pub(crate) fn of(kind: Kind) -> Unit {
        if kind == Kind::Btrfs { Unit::Extents } else { Unit::Blocks }
    }
}

/// The bytes that were freed on one filesystem so far, and those that something else holds.
#[derive(Debug)]
pub(crate) struct Account {
    unit: Unit,
    space: SpaceId,
    totals: Mutex<Totals>,
    /// Held while files that share extents are submitted.
    one_at_a_time: Mutex<()>,
}

#[derive(Debug, Default)]
struct Totals {
    freed: u64,
    spent: u64,
    pinned: RangeSet,
    /// In a dry run: the ranges that were counted as freed. Since nothing changes, the run may reach a range twice.
    planned: Option<RangeSet>,
    estimated: bool,
    bound: Bound,
}

impl Totals {
    fn free(&mut self, range: Range<u64>) {
        self.pinned.remove(range.clone());
        self.freed += match &mut self.planned {
            None => range.end - range.start,
            Some(planned) => {
                let new = length(&planned.gaps(range.clone()));
                planned.insert(range);
                new
            }
        };
    }
}

impl Account {
    /// An empty account.
    pub(crate) fn new(unit: Unit, space: SpaceId, dry_run: bool) -> Account {
        let totals = Totals { planned: dry_run.then(RangeSet::default), ..Totals::default() };
        Account { unit, space, totals: Mutex::new(totals), one_at_a_time: Mutex::default() }
    }

    /// The address space of this filesystem.
    pub(crate) fn space(&self) -> SpaceId {
        self.space
    }

    /// The unit in which this filesystem frees space.
    pub(crate) fn unit(&self) -> Unit {
        self.unit
    }

    /// Bytes freed, minus the bytes written to free them.
    pub(crate) fn freed(&self) -> u64 {
        let totals = self.totals();
        totals.freed.saturating_sub(totals.spent)
    }

    /// How exact that figure is.
    pub(crate) fn freed_is(&self) -> Bound {
        let totals = self.totals();
        if totals.estimated { totals.bound.and(Bound::AtMost) } else { totals.bound }
    }

    /// Bytes that were dropped but that something else still holds.
    pub(crate) fn pinned(&self) -> u64 {
        self.totals().pinned.length()
    }

    /// Whether some of these bytes belong to compressed extents. Only root can read their length on the disk.
    pub(crate) fn is_estimated(&self) -> bool {
        self.totals().estimated
    }

    /// Runs `submit`, which may make these files drop extents, and books the dropped bytes. Returns the result of
    /// `submit` and the new maps of the files. `many`: the files may have many extents afterwards.
    ///
    /// No two of the files may hold the same extents: submit such files in separate calls.
    ///
    /// # Errors
    /// If a file cannot be mapped beforehand; then nothing was submitted.
    pub(crate) fn watch<T>(
        &self,
        files: &[BorrowedFd<'_>],
        many: bool,
        submit: impl FnOnce(&[Map]) -> T,
    ) -> Result<(T, Vec<Option<Map>>)> {
        let maps = || files.iter().map(|file| Map::of(file, self.space, false)).collect::<Result<Vec<_>>>();
        let mut before = maps()?;
        let alone = before.iter().any(Map::is_shared).then(|| lock(&self.one_at_a_time));
        if alone.is_some() {
            // Another thread may just have dropped the same extents.
            before = maps()?;
        }
        let list = |file: &BorrowedFd<'_>, map: &Map| self.list_bytes(*file, map, many);
        let lists: Vec<_> = files.iter().zip(&before).map(|(file, map)| list(file, map)).collect();
        let held: Vec<_> = files.iter().zip(&before).map(|(file, map)| self.held(*file, map)).collect();
        let result = submit(&before);
        let after: Vec<_> = files.iter().map(|file| Map::of(file, self.space, false).ok()).collect();
        for (number, after) in after.iter().enumerate() {
            let Some(after) = after else { continue };
            self.book(held[number].as_ref().unwrap_or(&before[number]), after);
            if let Some(list) = lists[number]
                && let Some(now) = list_bytes(files[number], after)
            {
                self.resize_list(list, now);
            }
        }
        drop(alone);
        Ok((result, after))
    }

    /// The whole extents that a map shows parts of, if the filesystem frees extents only as a whole and they can be
    /// read.
    pub(crate) fn held(&self, file: BorrowedFd<'_>, map: &Map) -> Option<Map> {
        match self.unit {
            Unit::Blocks => None,
            Unit::Extents => whole_extents::of(file, map, self.space),
        }
    }

    /// The bytes that a file takes for the list of its extents, together with other bytes that do not change; `None` if
    /// it takes none.
    pub(crate) fn list_bytes(&self, file: BorrowedFd<'_>, map: &Map, many: bool) -> Option<u64> {
        let may_be_long = self.unit == Unit::Blocks && (many || map.has_many_extents());
        if may_be_long { list_bytes(file, map) } else { None }
    }

    /// Books the extents that one file dropped: it held `before`, it holds `after`.
    pub(crate) fn book(&self, before: &Map, after: &Map) {
        let dropped = dropped(before, after, self.space, self.unit);
        let mut totals = self.totals();
        for piece in dropped {
            totals.estimated |= piece.estimated;
            let range = piece.physical..piece.physical.saturating_add(piece.weight);
            if piece.shared {
                totals.pinned.insert(range);
            } else {
                totals.free(range);
            }
        }
    }

    /// Books bytes from an address on that were freed. Other filesystems are ignored.
    pub(crate) fn free(&self, at: Address, bytes: u64) {
        if let Some(start) = self.space.offset(at) {
            self.totals().free(start..start.saturating_add(bytes));
        }
    }

    /// Books bytes that were written to free others.
    pub(crate) fn spend(&self, bytes: u64) {
        self.totals().spent += bytes;
    }

    /// Books that the list of a file's extents took `before` bytes and takes `after`.
    pub(crate) fn resize_list(&self, before: u64, after: u64) {
        let mut totals = self.totals();
        totals.freed += before.saturating_sub(after);
        totals.spent += after.saturating_sub(before);
    }

    /// Books bytes from an address on that something else still holds. Other filesystems are ignored.
    pub(crate) fn pin(&self, at: Address, bytes: u64) {
        if let Some(start) = self.space.offset(at) {
            self.totals().pinned.insert(start..start.saturating_add(bytes));
        }
    }

    /// The bytes freed are not known exactly.
    pub(crate) fn limit(&self, bound: Bound) {
        let mut totals = self.totals();
        totals.bound = totals.bound.and(bound);
    }

    fn totals(&self) -> MutexGuard<'_, Totals> {
        lock(&self.totals)
    }
}

/// The bytes of a file's blocks that hold none of its data: those of the list of its extents, and of its attributes.
fn list_bytes(file: BorrowedFd<'_>, map: &Map) -> Option<u64> {
    Some(Status::of(file).ok()?.allocated.saturating_sub(map.bytes()))
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

/// The places in `before` that are not in `after`, each byte of the disk once.
pub(super) fn dropped(before: &Map, after: &Map, space: SpaceId, unit: Unit) -> Vec<Dropped> {
    let mut held = RangeSet::default();
    after.pieces().iter().filter_map(|piece| piece.place_in(space)).for_each(|place| held.insert(place));
    let mut pieces: Vec<_> =
        before.pieces().iter().filter_map(|piece| piece.place_in(space).map(|place| (place, piece))).collect();
    pieces.sort_unstable_by_key(|(place, _)| place.start);
    let mut dropped = Vec::new();
    for (place, piece) in pieces {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    fn piece(logical: u64, address: u64, length: u64, shared: bool) -> Piece {
        Piece { shared, ..Piece::plain(logical, length, SpaceId::assumed().at(address)) }
    }

    #[test]
    fn what_nobody_else_held_is_freed_and_the_rest_is_pinned() {
        let account = Account::new(Unit::Blocks, SpaceId::assumed(), false);
        let before = Map::from_pieces(vec![piece(0, 0, 10, false), piece(10, 50, 10, true)]);
        let after = Map::from_pieces(vec![piece(0, 100, 20, true)]);
        account.book(&before, &after);
        assert_eq!((account.freed(), account.pinned()), (10, 10));
        // The last holder of the shared extent drops it.
        let before = Map::from_pieces(vec![piece(10, 50, 10, false)]);
        account.book(&before, &after);
        assert_eq!((account.freed(), account.pinned()), (20, 0));
    }

    #[test]
    fn a_part_of_an_extent_is_freed_where_blocks_are_and_not_where_extents_are() {
        let before = Map::from_pieces(vec![piece(0, 0, 10, false)]);
        let after = Map::from_pieces(vec![piece(0, 100, 6, true), piece(6, 6, 4, false)]);
        let weights = |unit| dropped(&before, &after, SpaceId::assumed(), unit).iter().map(|d| d.weight).sum::<u64>();
        assert_eq!(weights(Unit::Blocks), 6);
        assert_eq!(weights(Unit::Extents), 0);
    }

    #[test]
    fn a_block_that_a_file_held_twice_is_freed_once() {
        let before = Map::from_pieces(vec![piece(0, 0, 10, false), piece(10, 0, 10, false)]);
        let after = Map::from_pieces(vec![]);
        assert_eq!(dropped(&before, &after, SpaceId::assumed(), Unit::Blocks).len(), 1);
    }

    #[test]
    fn btrfs_frees_whole_extents_and_others_free_blocks() {
        assert_eq!([Kind::Btrfs, Kind::Xfs].map(Unit::of), [Unit::Extents, Unit::Blocks]);
    }

    #[test]
    fn addresses_of_another_filesystem_are_ignored() {
        let account = Account::new(Unit::Blocks, SpaceId::assumed(), false);
        let other = SpaceId::separate();
        account.free(other.at(0), 10);
        account.pin(other.at(0), 10);
        assert_eq!((account.freed(), account.pinned()), (0, 0));
    }

    #[test]
    fn a_compressed_extent_of_unknown_length_makes_the_figure_an_upper_bound() {
        let account = Account::new(Unit::Blocks, SpaceId::assumed(), false);
        let before = |estimated| Map::from_pieces(vec![Piece { estimated, ..piece(0, 0, 10, false) }]);
        account.book(&before(false), &Map::default());
        assert_eq!((account.is_estimated(), account.freed_is()), (false, Bound::Exact));
        account.book(&before(true), &Map::default());
        account.book(&before(false), &Map::default());
        assert_eq!((account.is_estimated(), account.freed_is()), (true, Bound::AtMost));
        account.limit(Bound::AtLeast);
        assert_eq!(account.freed_is(), Bound::About);
    }

    #[test]
    fn a_compressed_extent_is_free_only_as_a_whole() {
        let encoded = Piece { encoded: true, ..piece(0, 0, 10, false) };
        let after = Map::from_pieces(vec![piece(0, 4, 2, false)]);
        assert!(dropped(&Map::from_pieces(vec![encoded]), &after, SpaceId::assumed(), Unit::Blocks).is_empty());
    }

    #[test]
    fn a_list_of_extents_that_grows_is_spent_and_one_that_shrinks_is_freed() {
        let account = Account::new(Unit::Blocks, SpaceId::assumed(), false);
        account.resize_list(10, 4);
        account.resize_list(7, 5);
        assert_eq!(account.freed(), 8);
        account.resize_list(4, 7);
        account.spend(2);
        assert_eq!(account.freed(), 3);
        account.resize_list(0, 9);
        assert_eq!(account.freed(), 0, "never less than nothing");
    }

    #[test]
    fn only_a_long_list_of_extents_takes_bytes_of_its_own() {
        let file = tempfile::tempfile().unwrap();
        rustix::io::pwrite(&file, &[1; 64 << 10], 0).unwrap();
        file.sync_all().unwrap();
        let allocated = Status::of(&file).unwrap().allocated;
        let account = |unit| Account::new(unit, SpaceId::assumed(), false);
        let bytes = |unit, map: &Map, many| account(unit).list_bytes(file.as_fd(), map, many);
        let (short, long) = (vec![piece(0, 0, 10, false)], (0..3).map(|at| piece(at, 2 * at, 1, false)).collect());
        let [short, long] = [short, long].map(Map::from_pieces);
        assert_eq!(bytes(Unit::Blocks, &long, false), Some(allocated - 3));
        assert_eq!(bytes(Unit::Blocks, &short, true), Some(allocated - 10));
        assert_eq!(bytes(Unit::Blocks, &short, false), None);
        assert_eq!(bytes(Unit::Extents, &long, true), None);
    }

    #[test]
    fn a_dry_run_counts_each_byte_once() {
        let account = Account::new(Unit::Extents, SpaceId::assumed(), true);
        let at = |offset| SpaceId::assumed().at(offset);
        account.pin(at(0), 10);
        assert_eq!((account.freed(), account.pinned()), (0, 10));
        account.free(at(0), 10);
        account.free(at(5), 10);
        account.spend(4);
        assert_eq!((account.freed(), account.pinned()), (11, 0));
        account.limit(Bound::AtMost);
        assert_eq!(account.freed_is(), Bound::AtMost);
    }
}

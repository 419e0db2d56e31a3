//! Uses the block index of an earlier run, and keeps one for the next: unchanged files are not read again. Knows which
//! files the index covers, and which of their ranges must be looked at nevertheless.
//!
//! A file is known if its key is that of a file that a run has read to its end. Each of its blocks then has a place in
//! the index, or is borrowed: the same block was found elsewhere, and has its place there. A borrowed range is looked
//! at again unless the other file is known too, or unless the range still lies where a known file has its data.

use super::context::Context;
use super::survey::pieces_of;
use crate::content::block_index::{Index, Place};
use crate::dedupe::catalogue::FileId;
use crate::dedupe::entry::Key;
use crate::dedupe::kept_blocks::borrowed::{Borrowed, List, NOBODY};
use crate::dedupe::kept_blocks::part::{self, Header, Id, Item};
use crate::dedupe::kept_blocks::store::Store;
use crate::dedupe::run::Run;
use crate::extents::ranges;
use crate::fs::status::Time;
use std::io;
use std::ops::Range;

/// The files of one filesystem with known blocks, and the ranges of them to look at nevertheless.
pub(super) struct Kept<'a> {
    run: &'a Run<'a>,
    /// `None`: nothing is kept. Then no file is known, and everything is read.
    id: Option<Id>,
    /// The files that may be known, in ascending order.
    files: Vec<(u32, State)>,
    /// The index in the store that is used: its number, and whether this run replaces it.
    chosen: Option<(usize, Header, bool)>,
    /// The files of that index, in its order; [`NOBODY`] for files that are gone.
    numbers: Vec<u32>,
    /// The ranges of known files to look at, sorted.
    to_check: List,
    borrowed: List,
    /// The bytes for each of the two lists.
    memory: u64,
    is_changed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unknown,
    /// An earlier run has read it.
    Known,
    /// This run has read it, or what had to be read of it.
    Done,
}

impl<'a> Kept<'a> {
    /// Nothing is known, and nothing will be kept.
    pub(super) fn none(run: &'a Run<'a>) -> Kept<'a> {
        Kept {
            run,
            id: None,
            files: Vec::new(),
            chosen: None,
            numbers: Vec::new(),
            to_check: List::default(),
            borrowed: List::default(),
            memory: 0,
            is_changed: false,
        }
    }

    /// Reads what an earlier run kept about files of at least `smallest` bytes, except the places. `memory`: the bytes
    /// for lists of ranges.
    pub(super) fn begin(run: &'a Run<'a>, store: &Store, id: Id, volume: u16, smallest: u64, memory: u64) -> Kept<'a> {
        let catalogue = run.catalogue;
        let is_countable = |size: u64| size.div_ceil(id.block) < u64::from(NOBODY);
        let wanted = |file: &FileId| {
            let size = catalogue.size(*file);
            catalogue.volume_number(*file) == volume && size >= smallest && is_countable(size)
        };
        let files: Vec<_> = catalogue.ids().filter(wanted).map(|file| (file.0, State::Unknown)).collect();
        let mut kept = Kept { id: Some(id), files, memory: memory / 2, ..Kept::none(run) };
        kept.forget();
        let keys = Keys::of(run, &kept.files);
        kept.chosen = choose(store, &id, &keys, memory);
        if let Some((number, header, _)) = kept.chosen
            && kept.read_head(store, number, header, &keys).is_err()
        {
            kept.forget();
        }
        kept.to_check.sort();
        kept
    }

    fn read_head(&mut self, store: &Store, number: usize, header: Header, keys: &Keys<'_>) -> io::Result<()> {
        let mut numbers = Vec::new();
        part::read_head(&mut *store.reader(number)?, header, |item| match item {
            Item::Key(key) => numbers.push(keys.find(&key).unwrap_or(NOBODY)),
            Item::Range(range) => {
                let file = |number: u32| numbers.get(number as usize).copied().unwrap_or(NOBODY);
                let range = Borrowed { file: file(range.file), owner: file(range.owner), ..range };
                match (range.file, range.owner) {
                    (NOBODY, _) => {}
                    (_, NOBODY) => self.to_check.add(range),
                    _ => self.borrowed.add(range),
                }
            }
        })?;
        for &file in &numbers {
            let is_complete = self.to_check.is_complete(file) && self.borrowed.is_complete(file);
            if let Some(at) = self.at(file).filter(|_| is_complete) {
                self.files[at].1 = State::Known;
            }
        }
        self.numbers = numbers;
        Ok(())
    }

    /// Forgets the kept index, which cannot be used and will be replaced.
    fn forget(&mut self) {
        self.files.iter_mut().for_each(|(_, state)| *state = State::Unknown);
        self.numbers = Vec::new();
        (self.to_check, self.borrowed) = (List::new(self.memory), List::new(self.memory));
    }

    fn at(&self, file: u32) -> Option<usize> {
        self.files.binary_search_by_key(&file, |(file, _)| *file).ok()
    }

    fn state(&self, file: u32) -> State {
        self.at(file).map_or(State::Unknown, |at| self.files[at].1)
    }

    /// Whether an earlier run has read this file.
    pub(super) fn knows(&self, file: u32) -> bool {
        self.state(file) != State::Unknown
    }

    /// The ranges of a file to look at.
    pub(super) fn ranges(&self, file: u32, size: u64) -> Vec<Range<u64>> {
        match self.id {
            Some(id) if self.knows(file) => {
                let ranges = self.to_check.of(file).iter().map(|range| range.bytes(id.block));
                ranges::list(ranges.map(|range| range.start..range.end.min(size)).filter(|r| !r.is_empty()).collect())
            }
            _ => std::iter::once(0..size).collect(),
        }
    }

    /// Whether there is nothing to look at in these files.
    pub(super) fn covers(&self, files: &[u32]) -> bool {
        self.to_check.ranges().is_empty() && files.iter().all(|&file| self.knows(file))
    }

    /// The index for so many blocks, with the places that an earlier run found in the known files.
    pub(super) fn index(&mut self, store: &Store, memory: u64, blocks: u64) -> Index {
        let index = Index::new(memory, blocks);
        let Some((number, header, _)) = self.chosen.filter(|_| !self.numbers.is_empty()) else { return index };
        let Some(modulus) = coarser(index.modulus(), header.modulus) else {
            self.forget();
            return index;
        };
        let mut index = index.with_modulus(modulus);
        let read = |index: &mut Index| {
            part::read_places(&mut *store.reader(number)?, header, |hash, place| {
                let file = self.numbers.get(place.file as usize).copied().unwrap_or(NOBODY);
                if file != NOBODY && index.keeps(hash) {
                    index.put(hash, Place { file, ..place });
                }
            })
        };
        if read(&mut index).is_err() {
            self.forget();
            return Index::new(memory, blocks);
        }
        self.numbers = Vec::new();
        index
    }

    /// Notes the shared places of known files: the same places in other files need not be looked at. `sharing`: the
    /// files with shared places, as far as they were mapped, sorted.
    pub(super) fn show(&self, sharing: &[u32], context: &mut Context<'_>) {
        let Some(id) = self.id else { return };
        let known = self.files.iter().filter(|(_, state)| *state == State::Known).map(|(file, _)| *file);
        let shares = |file: &u32| sharing.binary_search(file).is_ok() || self.run.is_settled(FileId(*file));
        for file in known.filter(shares) {
            let unsure = self.to_check.of(file).iter().map(|range| range.bytes(id.block)).collect();
            let unsure = ranges::list(unsure);
            pieces_of(file, context, |pieces, context| {
                for piece in pieces.iter().filter(|piece| piece.shared) {
                    let sure = ranges::subtract(std::slice::from_ref(&(piece.logical..piece.end())), &unsure);
                    sure.iter().filter_map(|range| piece.within(range.start, range.end)).for_each(|part| {
                        context.seen.add(&part);
                    });
                }
            });
        }
    }

    /// Notes that a range of a file was found elsewhere, so that the index has no places for it. `owner`: the file that
    /// the index has instead, or [`NOBODY`].
    pub(super) fn borrow(&mut self, file: u32, range: &Range<u64>, owner: u32) {
        let Some(id) = self.id.filter(|_| !range.is_empty()) else { return };
        let (first, behind) = (range.start / id.block, range.end.div_ceil(id.block));
        // No file that is too long for these numbers is ever known.
        if let (Ok(block), Ok(blocks)) = (u32::try_from(first), u32::try_from(behind - first)) {
            self.borrowed.add(Borrowed { file, block, blocks, owner });
        }
    }

    /// Notes that the index has a block of another file now, in place of this one.
    pub(super) fn displaced(&mut self, place: Place, owner: u32) {
        if let Some(id) = self.id {
            let start = u64::from(place.block) * id.block;
            self.borrow(place.file, &(start..start + id.block), owner);
        }
    }

    /// Notes that everything to look at in a file was looked at; or that it could not be read, and is unknown.
    pub(super) fn looked_at(&mut self, file: u32, is_read: bool) {
        self.is_changed = true;
        if let Some(at) = self.at(file) {
            self.files[at].1 = if is_read { State::Done } else { State::Unknown };
        }
    }

    /// Keeps the index for the next run. Files as young as `begun` may change and keep their times, so they are not
    /// kept.
    pub(super) fn keep(mut self, index: &Index, begun: Time, store: &mut Store) -> io::Result<()> {
        let Some(id) = self.id.filter(|_| self.is_changed && !self.run.dry_run) else { return Ok(()) };
        let to_check = std::mem::take(&mut self.to_check);
        for range in to_check.ranges() {
            if self.state(range.file) == State::Known {
                self.borrowed.add(Borrowed { owner: NOBODY, ..*range });
            }
        }
        drop(to_check);
        let catalogue = self.run.catalogue;
        let is_kept = |(file, state): &(u32, State)| {
            let is_old = catalogue.record(FileId(*file)).ctime() < begun;
            *state != State::Unknown && is_old && self.borrowed.is_complete(*file)
        };
        let files: Vec<u32> = self.files.iter().filter(|file| is_kept(file)).map(|(file, _)| *file).collect();
        let number = |file: u32| files.binary_search(&file).ok().map(|at| at as u32);
        let borrowed = || {
            self.borrowed.ranges().iter().filter_map(|range| {
                let owner = number(range.owner).unwrap_or(NOBODY);
                Some(Borrowed { file: number(range.file)?, owner, ..*range })
            })
        };
        let places = || {
            let kept = |(hash, place): (u64, Place)| Some((hash, Place { file: number(place.file)?, ..place }));
            index.entries().filter_map(kept)
        };
        let header = Header {
            id,
            age: 0,
            modulus: index.modulus(),
            files: files.len() as u64,
            borrowed: borrowed().count() as u64,
            places: places().count() as u64,
        };
        let replaces = self.chosen.filter(|(_, _, replaces)| *replaces).map(|(number, ..)| number);
        let keys = files.iter().map(|file| Key::of(self.run.catalogue, FileId(*file)));
        store.keep(replaces, |out| part::write(out, header, keys, borrowed(), places()))
    }
}

/// The N to use: a multiple of the N of the kept index, because that has no other places. `None` if it would have less
/// than half of the places that there is room for.
fn coarser(wanted: u64, kept: u64) -> Option<u64> {
    let modulus = wanted.checked_next_multiple_of(kept)?;
    (modulus < wanted.saturating_mul(2)).then_some(modulus)
}

/// Chooses among the indexes with this id, which other runs over other files may have kept: the one with the most known
/// files. It is replaced unless most of its files are out of scope.
fn choose(store: &Store, id: &Id, keys: &Keys<'_>, memory: u64) -> Option<(usize, Header, bool)> {
    let fits = |header: &Header| header.files <= memory / size_of::<u32>() as u64;
    let counted = store.find(id).into_iter().filter(|(_, header)| fits(header)).filter_map(|(number, header)| {
        let mut known = 0_u64;
        let count = |item| known += u64::from(matches!(item, Item::Key(key) if keys.find(&key).is_some()));
        part::read_head(&mut *store.reader(number).ok()?, header, count).ok()?;
        Some((known, number, header))
    });
    let most =
        counted.filter(|(known, ..)| *known > 0).max_by_key(|(known, _, header)| (*known, u64::MAX - header.files));
    most.map(|(known, number, header)| (number, header, known.saturating_mul(2) >= header.files))
}

/// Finds files by their keys: 16 bytes a file.
struct Keys<'a> {
    run: &'a Run<'a>,
    /// The beginning of the key, whether another file represents the file, and its number.
    files: Vec<(u64, u32)>,
}

impl<'a> Keys<'a> {
    fn of(run: &'a Run<'a>, files: &[(u32, State)]) -> Keys<'a> {
        let mut files: Vec<_> =
            files.iter().map(|&(file, _)| (beginning(&Key::of(run.catalogue, FileId(file))), file)).collect();
        // Names of one inode have one key. The name that the second stage looks at comes first.
        files.sort_unstable_by_key(|&(beginning, file)| (beginning, run.is_settled(FileId(file)), file));
        Keys { run, files }
    }

    fn find(&self, wanted: &Key) -> Option<u32> {
        let from = self.files.partition_point(|(found, _)| *found < beginning(wanted));
        let alike = self.files[from..].iter().take_while(|(found, _)| *found == beginning(wanted));
        alike.map(|(_, file)| *file).find(|file| Key::of(self.run.catalogue, FileId(*file)) == *wanted)
    }
}

fn beginning(key: &Key) -> u64 {
    key.0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_index_is_thinned_out_but_never_to_less_than_half() {
        assert_eq!(coarser(1, 1), Some(1));
        assert_eq!(coarser(6, 5), Some(10));
        assert_eq!(coarser(3, 4), Some(4));
        assert_eq!(coarser(1, 2), None);
        assert_eq!(coarser(5, 10), None);
    }
}

//! The files in scope, open while they are in use: their bytes, their checksums and their layouts.

use super::form::{Data, Form};
use super::overlay::Overlay;
use super::sums::{Block, Lookup};
use super::tally::Tally;
use crate::dedupe::catalogue::FileId;
use crate::dedupe::file::Opened;
use crate::dedupe::run::{Run, add};
use crate::dedupe::skip::Skip;
use crate::extents::layout::{self, Inode, Way};
use crate::extents::piece::Piece;
use crate::fs::filesystem::Kind;
use crate::fs::pread;
use crate::sys::btrfs::checksums::{Format, Sum};
use rustix::io::{Errno, Result};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::rc::Rc;

/// The longest chain of files that each have the extents of the next file.
const LONGEST_CHAIN: u32 = 16;
/// Files that are open at once.
const MOST_OPEN: usize = 64;
/// Among more blocks, too many have the same short checksum by chance to look at all of them: some 30,000 pairs among
/// this number.
const MANY: u64 = 1 << 24;
/// The most bytes without checksums that are read at once.
const AT_ONCE: u64 = 1 << 20;

/// Opens files, and keeps the most recent ones open.
pub(super) struct Files<'a> {
    run: &'a Run<'a>,
    /// Whether Btrfs's trees may be read.
    privileged: bool,
    open: VecDeque<(u32, Rc<Opened>)>,
    unreadable: HashSet<u32>,
    /// Files that the kernel would not change, or did not change.
    refused: HashMap<u32, Skip>,
    /// The format of the filesystem's checksums, if they are compared instead of the bytes.
    format: Option<Format>,
    lookup: Lookup,
    tally: Tally,
    /// The plan of a dry run.
    overlay: Option<Overlay>,
}

impl<'a> Files<'a> {
    /// `memory`: the bytes that the plan of a dry run may take.
    pub(super) fn new(run: &'a Run<'a>, privileged: bool, format: Option<Format>, memory: u64) -> Files<'a> {
        Files {
            run,
            privileged,
            open: VecDeque::new(),
            unreadable: HashSet::new(),
            refused: HashMap::new(),
            format,
            lookup: Lookup::default(),
            tally: Tally::default(),
            overlay: run.dry_run.then(|| Overlay::new(memory)),
        }
    }

    /// The file, open; `None` if it cannot be opened, which was reported.
    pub(super) fn get(&mut self, file: u32) -> Option<Rc<Opened>> {
        if let Some(at) = self.open.iter().position(|(number, _)| *number == file) {
            let entry = self.open.remove(at)?;
            self.open.push_back(entry);
        } else {
            if self.unreadable.contains(&file) {
                return None;
            }
            let Some(opened) = self.run.open(FileId(file)) else {
                self.unreadable.insert(file);
                return None;
            };
            if self.open.len() >= MOST_OPEN {
                self.open.pop_front();
            }
            self.open.push_back((file, Rc::new(opened)));
        }
        self.open.back().map(|(_, opened)| Rc::clone(opened))
    }

    /// Marks a file that may be read but not changed.
    pub(super) fn refuse(&mut self, file: u32, reason: Skip) {
        self.refused.insert(file, reason);
    }

    /// Whether the kernel refuses to change a file. A refusal is reported, because there is something to change.
    pub(super) fn is_refused(&self, file: u32) -> bool {
        let reason = self.refused.get(&file);
        reason.inspect(|reason| self.run.record_skip(FileId(file), **reason)).is_some()
    }

    /// The form in which the scanner sees blocks of this length. `blocks`: how many there are.
    pub(super) fn form(&self, block: u64, min_run: u64, blocks: u64) -> Form {
        let Some(format) = self.format else { return Form::Bytes { block } };
        let zero = format.compute(&vec![0; block as usize]);
        Form::Sums { block, zero, pairs: format.is_short() && blocks > MANY && min_run > block }
    }

    /// Whether a file was read without any failure, and nobody has written to it since the walk saw it.
    pub(super) fn is_read_as_seen(&mut self, file: u32) -> bool {
        let opened = self.get(file);
        let is_as_seen =
            |opened: Rc<Opened>| self.run.opener.is_as_seen(FileId(file), &opened) && opened.is_untouched();
        opened.is_some_and(is_as_seen) && !self.unreadable.contains(&file)
    }

    /// Whether equal data was found by checksums, and its bytes were not compared.
    pub(super) fn is_unread(&self) -> bool {
        self.format.is_some()
    }

    /// Counts a range of a file as read, by the kernel or by pleach, in so far as it was not read before.
    pub(super) fn count_read(&mut self, file: u32, range: Range<u64>) {
        add(&self.run.counters.read, self.tally.add(file, range));
    }

    /// Whether the bounds of extents are known.
    pub(super) fn is_exact(&self, file: u32) -> bool {
        self.way(file).is_exact()
    }

    /// The method used to read its layout.
    pub(super) fn way(&self, file: u32) -> Way {
        let catalogue = self.run.catalogue;
        let file = FileId(file);
        let volume = catalogue.volume(file);
        let inode = || Inode { root: catalogue.subvolume(file).number, number: catalogue.record(file).ino };
        let items = (self.privileged && volume.kind == Kind::Btrfs).then(inode);
        Way { space: Some(volume.space), items }
    }

    /// Where a range of a file lies; in a dry run, where it would lie by now.
    pub(super) fn pieces(&mut self, file: u32, from: u64, to: u64, most: usize, sync: bool) -> Result<Vec<Piece>> {
        if self.overlay.is_some() {
            self.planned(file, from..to, most, sync)
        } else {
            self.present(file, from, to, most, sync)
        }
    }

    fn planned(&mut self, file: u32, mut range: Range<u64>, most: usize, sync: bool) -> Result<Vec<Piece>> {
        loop {
            let mut pieces = self.planned_before(file, range.clone(), most, sync, LONGEST_CHAIN)?;
            let end = if pieces.len() >= most { pieces.last().map_or(range.end, Piece::end) } else { range.end };
            if let Some(overlay) = &self.overlay {
                pieces = overlay.apply(file, range.start..end, pieces);
            }
            // If all these pieces would be holes, data may follow.
            if !pieces.is_empty() || end >= range.end {
                return Ok(pieces);
            }
            range.start = end;
        }
    }

    /// Where a range of a file would lie after the stage of whole files.
    fn planned_before(
        &mut self,
        file: u32,
        range: Range<u64>,
        most: usize,
        sync: bool,
        chain: u32,
    ) -> Result<Vec<Piece>> {
        let planned = &self.run.planned;
        let twin = planned.twin(FileId(file)).filter(|twin| range.start < twin.end && chain > 0);
        let shared_end = planned.shared_end(FileId(file));
        let (mut pieces, mut at) = (Vec::new(), range.start);
        if let Some(twin) = twin {
            at = range.end.min(twin.end);
            pieces = self.planned_before(twin.source.0, range.start..at, most, sync, chain - 1)?;
            pieces.iter_mut().for_each(|piece| piece.shared = true);
        }
        if at < range.end && pieces.len() < most {
            pieces.extend(self.present(file, at, range.end, most - pieces.len(), sync)?);
        }
        let is_source = |piece: &&mut Piece| piece.logical < shared_end;
        pieces.iter_mut().filter(is_source).for_each(|piece| piece.shared = true);
        Ok(pieces)
    }

    /// Notes that a range of a file would have these pieces, with offsets in that file. `false`: there is no room for
    /// the note.
    pub(super) fn plan(&mut self, file: u32, start: u64, length: u64, pieces: &[Piece]) -> bool {
        let range = start..self.whole_blocks(file, start + length);
        self.overlay.as_mut().is_none_or(|overlay| overlay.set(file, range, pieces))
    }

    /// The planned address of an extent that would be written.
    pub(super) fn plan_extent(&mut self, length: u64) -> u64 {
        self.overlay.as_mut().map_or(0, |overlay| overlay.new_extent(length))
    }

    /// The end of the last block of a range: the last block of a file is shared and freed as a whole even if the file
    /// ends within it.
    pub(super) fn whole_blocks(&self, file: u32, end: u64) -> u64 {
        let catalogue = self.run.catalogue;
        let block = catalogue.volume(FileId(file)).block_size.max(1);
        if end >= catalogue.size(FileId(file)) { end.next_multiple_of(block) } else { end }
    }

    /// Reads bytes from an offset on, and prefetches so many of them.
    fn read_bytes(&mut self, file: u32, at: u64, buffer: &mut [u8], prefetch: u64) -> Option<usize> {
        let opened = self.get(file)?;
        pread::prefetch(&*opened, at..at.saturating_add(prefetch));
        match pread::read_full(&*opened, buffer, at) {
            Ok(filled) => Some(filled),
            Err(errno) => {
                self.run.failed(FileId(file), "read", errno);
                self.unreadable.insert(file);
                None
            }
        }
    }

    /// Reads the checksums of this many blocks from an offset on. Blocks without a checksum are read, and theirs are
    /// computed.
    fn read_sums(&mut self, file: u32, at: u64, blocks: u64, buffer: &mut [u8], format: &Format) -> Option<usize> {
        let opened = self.get(file)?;
        let (sums, _) = buffer.as_chunks_mut();
        let most = usize::try_from(blocks).unwrap_or(usize::MAX).min(sums.len());
        let (mut number, mut bytes) = (0, Vec::new());
        while number < most {
            let from = at + number as u64 * format.block();
            let left = most - number;
            let blocks = self.lookup.blocks((file, opened.as_fd()), self.way(file), format, from, left * 2);
            let Some(&first) = blocks.first() else { break };
            if let Block::Sum(_) = first {
                for block in blocks.into_iter().take(left) {
                    let Block::Sum(sum) = block else { break };
                    sums[number] = sum;
                    number += 1;
                }
                continue;
            }
            // Blocks behind them may have checksums, and are not read.
            let alike = blocks.iter().take_while(|block| **block == first).count() as u64 * format.block();
            bytes.clear();
            bytes.resize(alike.min(left as u64 * format.block()).min(AT_ONCE) as usize, 0);
            let read = self.read_bytes(file, from, &mut bytes, alike.min(AT_ONCE * 2))?;
            if first == Block::Unsummed {
                self.count_read(file, from..from + read as u64);
            }
            if read == 0 {
                // The file has become shorter.
                break;
            }
            // The checksum of a partial block includes zeros up to the block's end.
            let blocks = bytes.chunks_exact(format.block() as usize).take(read.div_ceil(format.block() as usize));
            for block in blocks {
                sums[number] = format.compute(block);
                number += 1;
            }
        }
        Some(number * size_of::<Sum>())
    }

    /// Where a range of a file lies.
    fn present(&mut self, file: u32, from: u64, to: u64, most: usize, sync: bool) -> Result<Vec<Piece>> {
        let opened = self.get(file).ok_or(Errno::NOENT)?;
        match layout::pieces(opened.as_fd(), self.way(file), from, to, most, sync) {
            // The root user of a container may be refused operations that root is allowed.
            Err(Errno::PERM) if self.privileged => {
                self.privileged = false;
                layout::pieces(opened.as_fd(), self.way(file), from, to, most, sync)
            }
            result => result,
        }
    }
}

impl Data for Files<'_> {
    fn size(&mut self, file: u32) -> Option<u64> {
        self.get(file).map(|opened| opened.status().size)
    }

    fn read(&mut self, file: u32, at: u64, buffer: &mut [u8]) -> Option<usize> {
        if let Some(format) = self.format {
            let whole = self.size(file)?.saturating_sub(at) / format.block();
            return self.read_sums(file, at, whole, buffer, &format);
        }
        let filled = self.read_bytes(file, at, buffer, buffer.len() as u64 * 2)?;
        self.count_read(file, at..at + filled as u64);
        Some(filled)
    }

    fn read_end(&mut self, file: u32, at: u64, buffer: &mut [u8]) -> Option<usize> {
        match self.format {
            Some(format) => self.read_sums(file, at, 1, buffer, &format),
            None => self.read(file, at, buffer),
        }
    }
}

//! Finds data of the base at other offsets: an index of the base's blocks by their hashes.
//!
//! Nothing is indexed as long as the input equals the base at the same offset. Once it differs, the index grows around
//! that place, up to four times as far as the bytes that have differed since. A few inserted blocks thus cost only a
//! look at their neighbourhood, and a base that has nothing in common with the input is read once for the index. The
//! memory of the index is limited: if the base is too large, every N-th block is kept, chosen by its hash. A hit is
//! compared, and extended both ways block by block.

use super::base::Base;
use super::equal::equal;
use super::job::{Failure, Job};
use super::stream::PIECE;
use crate::content::block_index::{Index, Place};
use crate::content::delta::is_zero;
use crate::extents::ranges::{self, Bytes};
use crate::fs::pread::read_exact;
use crate::util::digest::prefix;
use std::os::fd::BorrowedFd;

/// The index is built after this many differing bytes in a row.
const FIRST: u64 = 64 << 10;
/// The least distance that the index covers, both ways.
const REACH: u64 = 1 << 20;
/// The shortest run that is shared at another offset: each run needs a call and an extent.
const SHORTEST: u64 = 64 << 10;
/// How much of the base is read first to check a hit.
const LOOK: usize = 64 << 10;

/// The known blocks of the base.
pub(super) struct Moved {
    index: Option<Index>,
    memory: u64,
    size: u64,
    block: u64,
    /// The ranges of the base that are in the index.
    known: Vec<Bytes>,
    /// The offset at which the input began to differ from the base, and how many bytes had differed when the index last
    /// grew.
    grown: (u64, u64),
    /// A shift that gave too short a run, and the offset up to which it is not tried again.
    failed: Option<(i64, u64)>,
    buffer: Vec<u8>,
}

/// The wanted block: it is at `at` in a piece of the input that begins at `start`.
pub(super) struct Wanted<'a> {
    pub(super) start: u64,
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    /// All bytes from this offset on differed.
    pub(super) parted: u64,
    /// The shift at which the base was expected.
    pub(super) shift: i64,
}

impl Wanted<'_> {
    fn offset(&self) -> u64 {
        self.start + self.at as u64
    }
}

/// The place of a wanted block in the base.
pub(super) struct Found {
    /// Its offset in the base minus its offset in the input.
    pub(super) shift: i64,
    /// The number of equal bytes of the input before the block.
    pub(super) before: u64,
    /// The number of equal bytes from the block on, in this piece.
    pub(super) length: usize,
}

impl Moved {
    /// An empty index for a base of this size.
    pub(super) fn new(memory: u64, size: u64, block: u64) -> Moved {
        Moved { index: None, memory, size, block, known: Vec::new(), grown: (0, 0), failed: None, buffer: Vec::new() }
    }

    /// Looks up a block, and extends the match around it. `out` holds the input before this piece, as written so far.
    pub(super) fn find(
        &mut self,
        wanted: &Wanted<'_>,
        base: &mut Base<'_>,
        out: BorrowedFd<'_>,
        job: &Job<'_>,
    ) -> Result<Option<Found>, Failure> {
        let offset = wanted.offset();
        let differed = offset - wanted.parted;
        if self.grown.0 != wanted.parted {
            self.grown = (wanted.parted, 0);
        }
        if differed >= FIRST.max(2 * self.grown.1) {
            self.grown.1 = differed;
            self.grow(offset.saturating_add_signed(wanted.shift), (4 * differed).max(REACH), base, job)?;
        }
        let Some(place) = self.look_up(wanted) else { return Ok(None) };
        let from = u64::from(place.block) * self.block;
        let shift = from.wrapping_sub(offset) as i64;
        if self.failed.is_some_and(|(failed, until)| failed == shift && offset < until) {
            return Ok(None);
        }
        let (length, is_whole) = self.forward(wanted, from, base)?;
        if length == 0 {
            return Ok(None);
        }
        let before = self.backward(wanted, from, base, out)?;
        if before + (length as u64) < SHORTEST && !is_whole {
            self.failed = Some((shift, offset + length as u64));
            return Ok(None);
        }
        Ok(Some(Found { shift, before, length }))
    }

    fn look_up(&self, wanted: &Wanted<'_>) -> Option<Place> {
        let index = self.index.as_ref()?;
        let bytes = wanted.bytes.get(wanted.at..wanted.at + self.block as usize)?;
        // Zeros are everywhere and identify nothing.
        let hash = (!is_zero(bytes)).then(|| hash(bytes))?;
        index.keeps(hash).then(|| index.find(hash)).flatten()
    }

    /// Adds the base's blocks around a place to the index.
    fn grow(&mut self, center: u64, reach: u64, base: &mut Base<'_>, job: &Job<'_>) -> Result<(), Failure> {
        let blocks = self.size / self.block;
        let index = self.index.get_or_insert_with(|| Index::new(self.memory, blocks));
        let begin = center.saturating_sub(reach) / self.block * self.block;
        let end = center.saturating_add(reach).min(self.size) / self.block * self.block;
        let missing = ranges::subtract(std::slice::from_ref(&(begin.min(end)..end)), &self.known);
        for range in &missing {
            let mut at = range.start;
            while at < range.end {
                if job.monitor.is_cancelled() {
                    return Err(Failure::Interrupted);
                }
                let bytes = base.window(at, PIECE.min((range.end - at) as usize))?;
                let step = bytes.len() as u64;
                for (number, block) in bytes.chunks_exact(self.block as usize).enumerate() {
                    let number = u32::try_from(at / self.block + number as u64);
                    if let (false, Ok(block_number)) = (is_zero(block), number) {
                        let hash = hash(block);
                        if index.keeps(hash) {
                            index.put(hash, Place { file: 0, block: block_number });
                        }
                    }
                }
                if step == 0 {
                    break;
                }
                at += step;
            }
        }
        self.known.extend(missing);
        self.known = ranges::list(std::mem::take(&mut self.known));
        Ok(())
    }

    /// The number of equal bytes from the block on, and whether they reach the end of the piece.
    fn forward(&mut self, wanted: &Wanted<'_>, from: u64, base: &mut Base<'_>) -> Result<(usize, bool), Failure> {
        let bytes = &wanted.bytes[wanted.at..];
        let (mut length, mut step) = (0, LOOK);
        while length < bytes.len() {
            let rest = &bytes[length..];
            let want = rest.len().min(step);
            self.buffer.resize(want, 0);
            let there = from + length as u64;
            let got = base.read_at(&mut self.buffer, there)?;
            let ends = want == rest.len() && base.size() == there + want as u64;
            let same = equal(&rest[..want], &self.buffer[..got], self.block as usize, ends);
            length += same;
            if same < want {
                break;
            }
            step = PIECE;
        }
        Ok((length, length / self.block as usize == bytes.len() / self.block as usize))
    }

    /// The number of equal bytes before the block, among those that differed at the expected offset.
    fn backward(
        &mut self,
        wanted: &Wanted<'_>,
        from: u64,
        base: &mut Base<'_>,
        out: BorrowedFd<'_>,
    ) -> Result<u64, Failure> {
        let (offset, block) = (wanted.offset(), self.block as usize);
        let most = (offset - wanted.parted).min(from) / self.block * self.block;
        let mut written = Vec::new();
        let mut before = 0;
        while before < most {
            let end = offset - before;
            // The bytes in this piece have not been written yet.
            let floor = if end > wanted.start { wanted.start.max(offset - most) } else { offset - most };
            let step = (end - floor).min(LOOK as u64) as usize;
            self.buffer.resize(step, 0);
            let got = base.read_at(&mut self.buffer, from - before - step as u64)?;
            if got < step {
                break;
            }
            let begin = end - step as u64;
            let here = if begin >= wanted.start {
                &wanted.bytes[(begin - wanted.start) as usize..(end - wanted.start) as usize]
            } else {
                written.resize(step, 0);
                read_exact(out, &mut written, begin).map_err(Failure::Output)?;
                &written
            };
            let pairs = here.rchunks_exact(block).zip(self.buffer.rchunks_exact(block));
            let same = pairs.take_while(|(a, b)| a == b).count() * block;
            before += same as u64;
            if same < step {
                break;
            }
        }
        Ok(before)
    }
}

/// A hint of a block's content: the bytes decide.
fn hash(bytes: &[u8]) -> u64 {
    prefix(blake3::hash(bytes).as_bytes())
}

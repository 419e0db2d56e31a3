//! Finds runs: reads a file's blocks in order, looks their hashes up in the index, and extends each match both ways by
//! comparing bytes. Knows neither filesystems nor system calls: bytes come from a [`Data`].
//!
//! While a match goes on, blocks are compared and not hashed. After a match that is shorter than the shortest run, the
//! block's own place replaces the other in the index, and the same shift is not tried again for a while. A block thus
//! costs a bounded number of comparisons, however often its content occurs, and repetitive data finds its own period.

use super::run::{Run, Source};
use crate::content::block_index::{Index, Place};
use crate::util::digest::prefix;
use std::ops::Range;

/// The number of bytes of the file read at once.
const WINDOW: usize = 1 << 20;
/// The number of bytes of the other place read for a match that has just begun.
const FIRST_LOOK: usize = 64 << 10;
/// A longer match is passed on in parts, while its bytes are still in the page cache.
const PART: u64 = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// The bytes of numbered files.
pub(super) trait Data {
    /// A file's size; `None` if it cannot be read.
    fn size(&mut self, file: u32) -> Option<u64>;
    /// Reads from an offset on until the buffer is full or the file ends; `None` if that fails.
    fn read(&mut self, file: u32, at: u64, buffer: &mut [u8]) -> Option<usize>;
}

/// A match that may go on.
#[derive(Clone, Copy, Debug)]
struct Match {
    file: u32,
    /// Where the match begins in the other file, and in this one.
    offset: u64,
    start: u64,
    length: u64,
    /// The distance between the two places at the beginning of the match.
    shift: u64,
    /// Whether a part of the match was passed on.
    continued: bool,
    /// The block at which the match was found.
    hit: u64,
    hash: u64,
}

/// A shift between two places that gave too short a match.
#[derive(Clone, Copy, Debug)]
struct Failed {
    file: u32,
    shift: u64,
    until: u64,
}

/// Looks for runs.
pub(super) struct Scanner {
    index: Index,
    block: u64,
    min_run: u64,
    file: u32,
    size: u64,
    at: u64,
    end: u64,
    /// Runs do not reach back beyond this offset. Before it lies a hole, data seen before, or the last run.
    floor: u64,
    going: Option<Match>,
    failed: Option<Failed>,
    near: Window,
    far: Window,
}

impl Scanner {
    /// A scanner for blocks of this size and runs of at least `min_run` bytes.
    pub(super) fn new(index: Index, block: u64, min_run: u64) -> Scanner {
        Scanner {
            index,
            block,
            min_run: min_run.max(block),
            file: 0,
            size: 0,
            at: 0,
            end: 0,
            floor: 0,
            going: None,
            failed: None,
            near: Window::default(),
            far: Window::default(),
        }
    }

    /// Begins another file. The last one must be finished.
    pub(super) fn begin(&mut self, file: u32, size: u64) {
        (self.file, self.size, self.at, self.end, self.floor) = (file, size, 0, 0, 0);
        (self.going, self.failed) = (None, None);
        self.near.forget();
        self.far.forget();
    }

    /// Continues with a range of the file, block-aligned or up to its end. The last range must have been read to its
    /// end. If the two ranges do not touch, the run that ends here is returned.
    pub(super) fn enter(&mut self, range: Range<u64>) -> Option<Run> {
        let run = if range.start == self.end {
            None
        } else {
            self.floor = range.start;
            self.finish()
        };
        (self.at, self.end) = (range.start, range.end.min(self.size));
        run
    }

    /// The run that reaches the end of the read data, if there is one.
    pub(super) fn finish(&mut self) -> Option<Run> {
        let going = self.going.take()?;
        let floor = self.floor;
        let run = self.close(going);
        self.floor = self.floor.max(floor);
        run
    }

    /// The certain part of a match that goes on, so that everything before this place can be decided.
    pub(super) fn flush(&mut self) -> Option<Run> {
        let going = self.going.as_mut().filter(|going| going.continued || going.length >= self.min_run)?;
        let mut part = *going;
        let run = self.part(&mut part);
        if run.length > 0 {
            self.going = Some(part);
        }
        (run.length > 0).then_some(run)
    }

    /// The next run of the range; `None` at its end.
    pub(super) fn next_run(&mut self, data: &mut dyn Data) -> Option<Run> {
        while self.at < self.end {
            if let Some(mut going) = self.going.take() {
                let goes_on = self.extend(&mut going, data);
                if !goes_on {
                    if let Some(run) = self.close(going) {
                        return Some(run);
                    }
                } else if going.length >= PART {
                    let run = self.part(&mut going);
                    self.going = Some(going);
                    return Some(run);
                } else {
                    self.going = Some(going);
                }
                continue;
            }
            if let Some(run) = self.look(data) {
                return Some(run);
            }
        }
        None
    }

    /// Looks at the next block.
    fn look(&mut self, data: &mut dyn Data) -> Option<Run> {
        let block = self.block as usize;
        let bytes = self.near.get(data, self.file, self.at, block, self.ahead());
        let Some(bytes) = bytes.get(..block) else {
            // A partial block at the file's end belongs to the run before it or to none.
            self.at = self.end;
            return None;
        };
        if is_zero(bytes) {
            return self.zeros(data);
        }
        let hash = hash(bytes);
        if self.index.keeps(hash) {
            let here = Place { file: self.file, block: (self.at / self.block) as u32 };
            match self.index.find(hash).and_then(|place| self.open(place, hash, data)) {
                Some(going) => {
                    self.going = Some(going);
                    self.at += self.block;
                    return None;
                }
                None if self.at / self.block <= u64::from(u32::MAX) => self.index.put(hash, here),
                None => {}
            }
        }
        self.at += self.block;
        None
    }

    /// The number of bytes to read from here on: the data behind the range may have been seen.
    fn ahead(&self) -> usize {
        usize::try_from(self.end - self.at).unwrap_or(WINDOW).min(WINDOW)
    }

    /// Skips zeros, and returns them as a run if there are enough.
    fn zeros(&mut self, data: &mut dyn Data) -> Option<Run> {
        let (block, start) = (self.block as usize, self.at);
        while self.at < self.end {
            let rest = self.ahead();
            let bytes = self.near.get(data, self.file, self.at, rest.min(block), rest);
            let bytes = &bytes[..bytes.len().min(rest)];
            let zeros = bytes.chunks_exact(block).take_while(|block| is_zero(block)).count();
            self.at += (zeros * block) as u64;
            if zeros == 0 || zeros * block < bytes.len() {
                break;
            }
        }
        let length = self.at - start;
        (length >= self.min_run).then(|| {
            self.floor = self.at;
            Run { source: Source::Zeros, start, length }
        })
    }

    /// The match at this block, extended backwards, if it is a match.
    fn open(&mut self, place: Place, hash: u64, data: &mut dyn Data) -> Option<Match> {
        let (block, offset) = (self.block as usize, u64::from(place.block) * self.block);
        let shift = self.at.wrapping_sub(offset);
        let itself = place.file == self.file;
        let again = self
            .failed
            .is_some_and(|failed| failed.file == place.file && failed.shift == shift && self.at < failed.until);
        if again || (itself && offset >= self.at) {
            return None;
        }
        let ahead = self.ahead();
        let there = self.far.get(data, place.file, offset, block, FIRST_LOOK).get(..block)?;
        let here = self.near.get(data, self.file, self.at, block, ahead).get(..block)?;
        if here != there {
            return None;
        }
        let back = self.reach_back(place.file, offset, data);
        let (offset, start) = (offset - back, self.at - back);
        let length = back + self.block;
        Some(Match { file: place.file, offset, start, length, shift, continued: false, hit: self.at, hash })
    }

    /// The number of bytes before this block that equal those before the other block, in whole blocks.
    fn reach_back(&mut self, file: u32, offset: u64, data: &mut dyn Data) -> u64 {
        let most = (self.at - self.floor.min(self.at)).min(offset) / self.block * self.block;
        let mut back = 0;
        let (mut here, mut there) = (vec![0; FIRST_LOOK], vec![0; FIRST_LOOK]);
        while back < most {
            let step = (most - back).min((FIRST_LOOK as u64 / self.block).max(1) * self.block) as usize;
            here.resize(step, 0);
            there.resize(step, 0);
            let from = |at: u64| at - back - step as u64;
            if data.read(self.file, from(self.at), &mut here) != Some(step)
                || data.read(file, from(offset), &mut there) != Some(step)
            {
                break;
            }
            let block = self.block as usize;
            let equal = here.rchunks_exact(block).zip(there.rchunks_exact(block)).take_while(|(a, b)| a == b).count();
            back += equal as u64 * self.block;
            if (equal as u64 * self.block) < step as u64 {
                break;
            }
        }
        back
    }

    /// Extends a match forward as far as the windows reach. Returns whether it may go on behind them.
    fn extend(&mut self, going: &mut Match, data: &mut dyn Data) -> bool {
        let block = self.block as usize;
        let rest = self.ahead();
        let offset = going.offset + going.length;
        if rest < block && self.end == self.size {
            return self.extend_to_end(going, offset, rest, data);
        }
        let here = self.near.get(data, self.file, self.at, block.min(rest), rest);
        let here = &here[..here.len().min(rest)];
        let reach = if going.length < WINDOW as u64 / 4 { FIRST_LOOK } else { WINDOW };
        let there = self.far.get(data, going.file, offset, block, reach);
        let both = here.len().min(there.len()) / block * block;
        let equal = here[..both].chunks_exact(block).zip(there[..both].chunks_exact(block));
        let equal = equal.take_while(|(a, b)| a == b).count() * block;
        going.length += equal as u64;
        self.at += equal as u64;
        equal == both && both > 0
    }

    /// A partial block at the end is shared only with one that ends its file too.
    fn extend_to_end(&mut self, going: &mut Match, offset: u64, rest: usize, data: &mut dyn Data) -> bool {
        if data.size(going.file) == Some(offset + rest as u64) {
            let here = self.near.get(data, self.file, self.at, rest, rest).get(..rest);
            let there = self.far.get(data, going.file, offset, rest, FIRST_LOOK).get(..rest);
            if here.is_some() && here == there {
                going.length += rest as u64;
            }
        }
        self.at = self.end;
        false
    }

    /// Returns a part of a match that goes on.
    fn part(&mut self, going: &mut Match) -> Run {
        let (file, offset, start) = (going.file, going.offset, going.start);
        let mut length = going.length;
        if file == self.file && going.shift < PART {
            // Repetitive data: all parts are shared with its beginning.
            let apart = start - offset;
            let most = if apart > going.shift { length.min(apart) } else { length };
            length = most / going.shift * going.shift;
        } else {
            going.offset += length;
        }
        going.start += length;
        going.length -= length;
        going.continued = true;
        self.floor = going.start;
        Run { source: Source::File { file, offset }, start, length }
    }

    /// Ends a match, and returns it as a run if it is long enough.
    fn close(&mut self, going: Match) -> Option<Run> {
        let Match { file, offset, start, length, .. } = going;
        if length >= self.min_run || going.continued {
            self.floor = start + length;
            return (length > 0).then_some(Run { source: Source::File { file, offset }, start, length });
        }
        self.failed = Some(Failed { file, shift: start.wrapping_sub(offset), until: start + length });
        let block = going.hit / self.block;
        if block <= u64::from(u32::MAX) {
            self.index.put(going.hash, Place { file: self.file, block: block as u32 });
        }
        self.at = going.hit + self.block;
        None
    }
}

/// Some bytes of a file.
#[derive(Default)]
struct Window {
    bytes: Vec<u8>,
    file: u32,
    start: u64,
}

impl Window {
    fn forget(&mut self) {
        self.bytes.clear();
    }

    /// The bytes from an offset on: at least `least`, unless the file ends before. If the window has fewer, `reach`
    /// bytes are read.
    fn get(&mut self, data: &mut dyn Data, file: u32, at: u64, least: usize, reach: usize) -> &[u8] {
        let end = self.start + self.bytes.len() as u64;
        let has = self.file == file && self.start <= at && at + least as u64 <= end && !self.bytes.is_empty();
        if !has {
            self.bytes.resize(reach.max(least), 0);
            let got = data.read(file, at, &mut self.bytes).unwrap_or(0);
            self.bytes.truncate(got);
            (self.file, self.start) = (file, at);
        }
        &self.bytes[(at - self.start) as usize..]
    }
}

/// Whether all bytes are zero.
fn is_zero(bytes: &[u8]) -> bool {
    // Most blocks show at the first byte that they are not zeros.
    bytes.first() == Some(&0) && bytes.iter().fold(0, |all, byte| all | byte) == 0
}

/// A hint of a block's content: the bytes of a hit are compared, finally by the kernel.
fn hash(bytes: &[u8]) -> u64 {
    prefix(blake3::hash(bytes).as_bytes())
}

#[cfg(test)]
mod tests;

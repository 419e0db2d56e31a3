//! Finds runs: reads a file's blocks in order, looks their hashes up in the index, and extends each match both ways by
//! comparing blocks, or their checksums ([`Form`]). Knows neither filesystems nor system calls: both come from a
//! [`Data`].
//!
//! While a match goes on, blocks are compared and not hashed. After a match that is shorter than the shortest run, the
//! block's own place replaces the other in the index, and the same shift is not tried again for a while. A block thus
//! costs a bounded number of comparisons, however often its content occurs, and repetitive data finds its own period.

mod window;

use self::window::Window;
use super::form::{Data, Form};
use super::run::{Run, Source};
use crate::content::block_index::{Index, Place};
use crate::sys::btrfs::checksums::Sum;
use std::ops::Range;

/// The number of bytes of the file read, or looked up, at once.
const WINDOW: u64 = 1 << 20;
/// The number of bytes of the other place read for a match that has just begun.
const FIRST_LOOK: u64 = 64 << 10;
/// A longer match is passed on in parts, while its bytes are still in the page cache.
const PART: u64 = if cfg!(test) { 1 << 20 } else { 64 << 20 };

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
    form: Form,
    min_run: u64,
    file: u32,
    size: u64,
    at: u64,
    end: u64,
    /// Runs do not reach back beyond this offset. Before it lies a hole, data seen before, or the last run.
    floor: u64,
    /// The checksum of the block before this one, if the block was looked at and a range has both.
    before: Option<Sum>,
    going: Option<Match>,
    failed: Option<Failed>,
    /// Places in other files that the index had for blocks of this file, and has no more.
    displaced: Vec<Place>,
    near: Window,
    far: Window,
}

impl Scanner {
    /// A scanner for blocks in this form, and runs of at least `min_run` bytes.
    pub(super) fn new(index: Index, form: Form, min_run: u64) -> Scanner {
        Scanner {
            index,
            form,
            min_run: min_run.max(form.block()),
            file: 0,
            size: 0,
            at: 0,
            end: 0,
            floor: 0,
            before: None,
            going: None,
            failed: None,
            displaced: Vec::new(),
            near: Window::new(form),
            far: Window::new(form),
        }
    }

    /// Begins another file. The last one must be finished.
    pub(super) fn begin(&mut self, file: u32, size: u64) {
        (self.file, self.size, self.at, self.end, self.floor) = (file, size, 0, 0, 0);
        (self.before, self.going, self.failed) = (None, None, None);
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
            self.before = None;
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
        let (block, rest) = (self.form.block(), self.ahead());
        // A partial block at the file's end belongs to the run before it or to none. The file may have become longer
        // or shorter meanwhile.
        let is_whole = rest >= block;
        let bytes = self.near.get(data, self.file, self.at, block, rest).get(..self.form.width());
        let Some(bytes) = bytes.filter(|_| is_whole) else {
            self.at = self.end;
            return None;
        };
        if self.form.is_zero(bytes) {
            return self.zeros(data);
        }
        let hash = self.form.hash(self.before, bytes);
        self.before = self.form.sum(bytes);
        if let Some(hash) = hash.filter(|hash| self.index.keeps(*hash)) {
            match self.index.find(hash).and_then(|place| self.open(place, hash, data)) {
                Some(going) => {
                    self.going = Some(going);
                    self.at += block;
                    return None;
                }
                None => self.put(hash, self.at),
            }
        }
        self.at += block;
        None
    }

    /// The number of bytes to read from here on: the data behind the range may have been seen.
    fn ahead(&self) -> u64 {
        (self.end - self.at).min(WINDOW)
    }

    /// Skips zeros, and returns them as a run if there are enough.
    fn zeros(&mut self, data: &mut dyn Data) -> Option<Run> {
        let (block, width, start) = (self.form.block(), self.form.width(), self.at);
        while self.end - self.at >= block {
            let rest = self.ahead();
            let bytes = self.near.get(data, self.file, self.at, block, rest);
            let bytes = &bytes[..bytes.len().min((rest / block) as usize * width)];
            let zeros = bytes.chunks_exact(width).take_while(|block| self.form.is_zero(block)).count();
            self.at += zeros as u64 * block;
            if zeros == 0 || zeros * width < bytes.len() {
                break;
            }
        }
        self.before = None;
        let length = self.at - start;
        (length >= self.min_run).then(|| {
            self.floor = self.at;
            Run { source: Source::Zeros, start, length }
        })
    }

    /// The match at this block, extended backwards, if it is a match.
    fn open(&mut self, place: Place, hash: u64, data: &mut dyn Data) -> Option<Match> {
        let (block, width) = (self.form.block(), self.form.width());
        let offset = u64::from(place.block) * block;
        let shift = self.at.wrapping_sub(offset);
        let itself = place.file == self.file;
        let again = self
            .failed
            .is_some_and(|failed| failed.file == place.file && failed.shift == shift && self.at < failed.until);
        if again || (itself && offset >= self.at) {
            return None;
        }
        let ahead = self.ahead();
        let there = self.far.get(data, place.file, offset, block, FIRST_LOOK).get(..width)?;
        let here = self.near.get(data, self.file, self.at, block, ahead).get(..width)?;
        if here != there {
            return None;
        }
        let back = self.reach_back(place.file, offset, data);
        let (offset, start) = (offset - back, self.at - back);
        let length = back + block;
        Some(Match { file: place.file, offset, start, length, shift, continued: false, hit: self.at, hash })
    }

    /// The number of bytes before this block that equal those before the other block, in whole blocks.
    fn reach_back(&mut self, file: u32, offset: u64, data: &mut dyn Data) -> u64 {
        let (block, width) = (self.form.block(), self.form.width());
        let most = (self.at - self.floor.min(self.at)).min(offset) / block * block;
        let most_at_once = (FIRST_LOOK / block).max(1) * block;
        let mut back = 0;
        let (mut here, mut there) = (Vec::new(), Vec::new());
        while back < most {
            let step = (most - back).min(most_at_once);
            let length = self.form.length(step);
            here.resize(length, 0);
            there.resize(length, 0);
            let from = |at: u64| at - back - step;
            if data.read(self.file, from(self.at), &mut here) != Some(length)
                || data.read(file, from(offset), &mut there) != Some(length)
            {
                break;
            }
            let equal = here.rchunks_exact(width).zip(there.rchunks_exact(width)).take_while(|(a, b)| a == b).count();
            back += equal as u64 * block;
            if equal as u64 * block < step {
                break;
            }
        }
        back
    }

    /// Extends a match forward as far as the windows reach. Returns whether it may go on behind them.
    fn extend(&mut self, going: &mut Match, data: &mut dyn Data) -> bool {
        let (block, width) = (self.form.block(), self.form.width());
        let rest = self.ahead();
        let offset = going.offset + going.length;
        if rest < block && self.end == self.size {
            return self.extend_to_end(going, offset, rest, data);
        }
        let here = self.near.get(data, self.file, self.at, block.min(rest), rest);
        let here = &here[..here.len().min((rest / block) as usize * width)];
        let reach = if going.length < WINDOW / 4 { FIRST_LOOK } else { WINDOW };
        let there = self.far.get(data, going.file, offset, block, reach);
        let both = here.len().min(there.len()) / width;
        let equal = here.chunks_exact(width).zip(there.chunks_exact(width)).take_while(|(a, b)| a == b).count();
        going.length += equal as u64 * block;
        self.at += equal as u64 * block;
        equal == both && both > 0
    }

    /// A partial block at the end is shared only with one that ends its file too.
    fn extend_to_end(&mut self, going: &mut Match, offset: u64, rest: u64, data: &mut dyn Data) -> bool {
        if data.size(going.file) == Some(offset + rest) {
            let (mut here, mut there) = (vec![0; self.form.length(rest)], vec![0; self.form.length(rest)]);
            let ends = (data.read_end(self.file, self.at, &mut here), data.read_end(going.file, offset, &mut there));
            if ends == (Some(here.len()), Some(here.len())) && here == there {
                going.length += rest;
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
            self.before = None;
            return (length > 0).then_some(Run { source: Source::File { file, offset }, start, length });
        }
        self.failed = Some(Failed { file, shift: start.wrapping_sub(offset), until: start + length });
        self.put(going.hash, going.hit);
        self.at = going.hit + self.form.block();
        None
    }

    /// Stores the place of a block of the file.
    fn put(&mut self, hash: u64, at: u64) {
        if let Ok(block) = u32::try_from(at / self.form.block()) {
            let earlier = self.index.put(hash, Place { file: self.file, block });
            self.displaced.extend(earlier.filter(|earlier| earlier.file != self.file));
        }
    }

    /// The places in other files that the index had for blocks of this file, and has no more since this was last asked.
    pub(super) fn take_displaced(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.displaced)
    }

    /// The index.
    pub(super) fn index(&self) -> &Index {
        &self.index
    }
}

#[cfg(test)]
mod tests;

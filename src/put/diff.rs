//! The input goes along with the base, block by block: what is equal stays shared, what differs is written, adjacent
//! blocks by one call.
//!
//! The new file begins as a clone of the base, so that what is equal at the same offset needs nothing at all. Where the
//! two part for long, the base may go on at another offset (`moved`): then that is what the input goes along with, and
//! a run that ends is cloned to its new place. Blocks that are equal are never looked up.

use super::base::Base;
use super::equal::equal;
use super::input::Input;
use super::job::{Content, Failure, Job};
use super::moved::{Moved, Wanted};
use super::staging::set_size;
use super::stream::{PIECE, read_beside};
use crate::content::rewrite;
use crate::extents::ranges::{self, Bytes};
use crate::fs::cow_extent_hint::CowExtentHint;
use crate::fs::pread::write_all;
use crate::monitor::Amount;
use crate::sys::reflink;
use rustix::fs::{Advice, fadvise};
use std::num::NonZeroU64;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// A run at another offset that goes on for longer is cloned in parts.
const PART: u64 = 64 << 20;
/// When so much differed in a row, the base is hardly read beside it any more: one block a piece. The index leads back
/// to it, but not to zeros.
const FAR: u64 = 16 << 20;
/// After so much what was written goes to the disk.
const BEHIND: u64 = 32 << 20;

/// Makes `out`, a clone of the base or an empty file, what the input gives to its end.
pub(super) fn all(
    job: &Job<'_>,
    input: &Input<'_>,
    mut base: Option<&mut Base<'_>>,
    out: &OwnedFd,
) -> Result<Content, Failure> {
    let finely = base.as_ref().and_then(|_| CowExtentHint::begin(out.as_fd(), job.block));
    let hashed = job.options.expect_blake3.is_some();
    let content = read_beside(input, hashed, job.monitor, |pieces| {
        let mut weave = Diff::new(job, base.as_deref_mut(), out.as_fd());
        while let Some(bytes) = pieces.next()? {
            if job.monitor.is_cancelled() {
                return Err(Failure::Interrupted);
            }
            weave.take(&bytes)?;
            job.monitor.advance(Amount { files: 0, bytes: bytes.len() as u64 });
            if let Some(expected) = job.options.expect_size.filter(|expected| weave.at > *expected) {
                let expected = crate::util::text::count(expected);
                let why = format!("the input goes on after the {expected} bytes that were expected");
                return Err(Failure::Unexpected(why));
            }
            pieces.give_back(bytes);
        }
        let size = weave.finish()?;
        Ok(Content { size, read: size, hash: pieces.hash() })
    })?;
    if let Some(finely) = finely {
        finely.end(out.as_fd()).map_err(Failure::Output)?;
    }
    Ok(Content { read: content.read + base.map_or(0, |base| base.read()), ..content })
}

/// A run of the input that is equal to the base at another offset, and not yet cloned.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: u64,
    length: u64,
}

struct Diff<'w, 'b> {
    job: &'w Job<'w>,
    base: Option<&'w mut Base<'b>>,
    out: BorrowedFd<'w>,
    moved: Moved,
    /// How far the input has been taken.
    at: u64,
    /// How far ahead of the input, in its file, the base goes on with the same.
    shift: i64,
    /// What goes along with the base at another offset.
    run: Option<Run>,
    /// Where the input parted from the base; its bytes from there on were written.
    parted: u64,
    /// How much was written and not sent to the disk, and from where on that is.
    behind: (u64, u64),
}

impl<'w, 'b> Diff<'w, 'b> {
    fn new(job: &'w Job<'w>, base: Option<&'w mut Base<'b>>, out: BorrowedFd<'w>) -> Diff<'w, 'b> {
        let size = base.as_ref().map_or(0, |base| base.size());
        let moved = Moved::new(job.options.index_memory, size, job.block);
        Diff { job, base, out, moved, at: 0, shift: 0, run: None, parted: 0, behind: (0, 0) }
    }

    /// Takes the next piece: whole blocks, unless it is the last.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let (start, block) = (self.at, self.job.block as usize);
        let mut differing: Vec<Bytes> = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let offset = start + at as u64;
            let equal = self.along(offset, &bytes[at..])?;
            if equal > 0 {
                self.keep(offset, equal as u64)?;
                at += equal;
                continue;
            }
            if let Some(length) = self.elsewhere(start, bytes, at, &mut differing)? {
                at += length;
                continue;
            }
            let next = (at + block).min(bytes.len());
            ranges::push(&mut differing, offset..start + next as u64);
            at = next;
        }
        for range in &differing {
            let part = &bytes[(range.start - start) as usize..(range.end - start) as usize];
            write_all(self.out, part, range.start).map_err(Failure::Output)?;
        }
        self.at += bytes.len() as u64;
        self.send_behind(ranges::length(&differing));
        Ok(())
    }

    /// How many of these bytes the base has too, where the input goes along with it.
    fn along(&mut self, offset: u64, bytes: &[u8]) -> Result<usize, Failure> {
        let Some(base) = self.base.as_deref_mut() else { return Ok(0) };
        let Some(there) = offset.checked_add_signed(self.shift) else { return Ok(0) };
        let is_far = offset - self.parted >= FAR;
        if there >= base.size() || (is_far && !offset.is_multiple_of(PIECE as u64)) {
            return Ok(0);
        }
        let bytes = if is_far { &bytes[..bytes.len().min(self.job.block as usize)] } else { bytes };
        let ends = base.size() == there + bytes.len() as u64;
        Ok(equal(bytes, base.window(there, bytes.len())?, self.job.block as usize, ends))
    }

    /// Notes that the input goes along with the base.
    fn keep(&mut self, offset: u64, length: u64) -> Result<(), Failure> {
        self.parted = offset + length;
        if self.shift == 0 {
            return Ok(());
        }
        match &mut self.run {
            Some(run) if run.start + run.length == offset => run.length += length,
            _ => {
                self.clone_run()?;
                self.run = Some(Run { start: offset, length });
            }
        }
        // One that ends within a block ends the file, which has its size only then.
        let is_part = |run: Run| run.length >= PART && run.length.is_multiple_of(self.job.block);
        if self.run.is_some_and(is_part) { self.clone_run() } else { Ok(()) }
    }

    /// If the base goes on elsewhere with the bytes at `at` in this piece, goes along with it from now on: gives how
    /// many bytes from there on are equal. What before them is equal too need not be written, or is shared after all.
    fn elsewhere(
        &mut self,
        start: u64,
        bytes: &[u8],
        at: usize,
        differing: &mut Vec<Bytes>,
    ) -> Result<Option<usize>, Failure> {
        let Some(base) = self.base.as_deref_mut() else { return Ok(None) };
        let wanted = Wanted { start, bytes, at, parted: self.parted, shift: self.shift };
        let Some(found) = self.moved.find(&wanted, base, self.out, self.job)? else { return Ok(None) };
        self.clone_run()?;
        self.shift = found.shift;
        let offset = start + at as u64;
        let begin = offset - found.before;
        *differing = ranges::subtract(differing, std::slice::from_ref(&(begin..offset)));
        if self.shift == 0 && begin < start {
            // It has been written over the clone; elsewhere a run does this.
            self.run = Some(Run { start: begin, length: start - begin });
            self.clone_run()?;
        }
        self.keep(begin, found.before + found.length as u64)?;
        Ok(Some(found.length))
    }

    /// Clones the run that has ended to its place.
    fn clone_run(&mut self) -> Result<(), Failure> {
        let (Some(run), Some(base)) = (self.run.take(), self.base.as_deref_mut()) else { return Ok(()) };
        let Some(from) = run.start.checked_add_signed(self.shift) else { return Ok(()) };
        match reflink::clone_range(base.frozen(), from, run.length, self.out, run.start) {
            Ok(()) => Ok(()),
            // Its bytes are still there.
            Err(_) => copy(base, from, self.out, &run),
        }
    }

    /// Ends the file; gives its size.
    fn finish(mut self) -> Result<u64, Failure> {
        // The part of a block at the end of the base is cloned only to the end of a file.
        set_size(self.out, self.at).map_err(Failure::Output)?;
        self.clone_run()?;
        Ok(self.at)
    }

    /// Has the kernel begin to write, while the input goes on, and not only when all is synced.
    fn send_behind(&mut self, written: u64) {
        let (bytes, from) = self.behind;
        self.behind = (bytes + written, from);
        if self.behind.0 >= BEHIND {
            let _ = fadvise(self.out, from, NonZeroU64::new(self.at - from), Advice::DontNeed);
            self.behind = (0, self.at);
        }
    }
}

/// Writes a run that cannot be cloned.
fn copy(base: &mut Base<'_>, from: u64, out: BorrowedFd<'_>, run: &Run) -> Result<(), Failure> {
    Ok(rewrite::copy((base.frozen(), from), (out, run.start), run.length)?)
}

//! Compares the input with the base block by block as it arrives. Equal blocks stay shared. Differing blocks are
//! written, adjacent ones by one call.
//!
//! The new file begins as a clone of the base, so data that is equal at the same offset needs no work at all. If the
//! two differ for long, the base may continue at another offset (`moved`). The input is then compared with the base at
//! that offset, and a run that ends is cloned to its new place. Equal blocks are never looked up in the index.

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

/// Longer runs at another offset are cloned in parts.
const PART: u64 = 64 << 20;
/// After this many differing bytes in a row, only one block of the base is read for each piece of the input. The index
/// finds the base again, except for zeros.
const FAR: u64 = 16 << 20;
/// After this many bytes were written, the kernel is asked to write them to the disk.
const BEHIND: u64 = 32 << 20;

/// Gives `out`, a clone of the base or an empty file, the content of the input to its end.
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
                let why = format!("the input continues after the {expected} expected bytes");
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

/// A run of the input that is equal to the base at another offset, and is not yet cloned.
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
    /// The offset up to which the input was taken.
    at: u64,
    /// The offset in the base minus the offset in the input at which the base continues with equal data.
    shift: i64,
    /// The run that equals the base at another offset.
    run: Option<Run>,
    /// The offset at which the input began to differ from the base; the bytes from there on were written.
    parted: u64,
    /// The number of bytes written but not yet sent to the disk, and the offset at which they begin.
    behind: (u64, u64),
}

impl<'w, 'b> Diff<'w, 'b> {
    fn new(job: &'w Job<'w>, base: Option<&'w mut Base<'b>>, out: BorrowedFd<'w>) -> Diff<'w, 'b> {
        let size = base.as_ref().map_or(0, |base| base.size());
        let moved = Moved::new(job.options.index_memory, size, job.block);
        Diff { job, base, out, moved, at: 0, shift: 0, run: None, parted: 0, behind: (0, 0) }
    }

    /// Takes the next piece, which consists of whole blocks unless it is the last.
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

    /// The number of these bytes that equal the base at the present shift.
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

    /// Notes that this range of the input equals the base.
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
        // A run that ends within a block ends the file, which has its final size only later.
        let is_part = |run: Run| run.length >= PART && run.length.is_multiple_of(self.job.block);
        if self.run.is_some_and(is_part) { self.clone_run() } else { Ok(()) }
    }

    /// If the base has the bytes at `at` in this piece elsewhere, continues there. Returns the number of equal bytes
    /// from `at` on. Equal bytes before `at` need not be written, or are shared after all.
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
            // These bytes were written over the clone. At any other shift, a run covers them.
            self.run = Some(Run { start: begin, length: start - begin });
            self.clone_run()?;
        }
        self.keep(begin, found.before + found.length as u64)?;
        Ok(Some(found.length))
    }

    /// Clones the finished run to its place.
    fn clone_run(&mut self) -> Result<(), Failure> {
        let (Some(run), Some(base)) = (self.run.take(), self.base.as_deref_mut()) else { return Ok(()) };
        let Some(from) = run.start.checked_add_signed(self.shift) else { return Ok(()) };
        match reflink::clone_range(base.frozen(), from, run.length, self.out, run.start) {
            Ok(()) => Ok(()),
            // Its bytes can still be copied.
            Err(_) => copy(base, from, self.out, &run),
        }
    }

    /// Ends the file, and returns its size.
    fn finish(mut self) -> Result<u64, Failure> {
        // A partial block at the end of the base can be cloned only to the end of a file.
        set_size(self.out, self.at).map_err(Failure::Output)?;
        self.clone_run()?;
        Ok(self.at)
    }

    /// Lets the kernel begin to write while the input continues, instead of writing everything at the final sync.
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

//! io_uring(7): many reads and writes under way at once. [`files`](files::files) copies many small files side by side, this copies
//! one large one in pieces.
//!
//! Each thread has a ring of its own and keeps it: no locks, and nothing to set up for the next file.

mod files;
mod piece;

pub use files::{FileError, Files, Opened, Wanted, files};

use super::buffered::pieces;
use super::direct::Direct;
use super::{Halt, Job, proceed};
use crate::content::copy::content::CopyError;
use crate::fs::direct_io::ALIGN;
use crate::sys::uring::{Op, Ring};
use piece::Piece;
use rustix::io::Errno;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;
use std::slice;

/// How many pieces of a file are under way, and how long they are: enough for a device's queue, and 4 MiB a thread, beside
/// the 8 MiB of the ring for small files.
const SLOTS: usize = 8;
const PIECE: usize = 512 << 10;

thread_local! {
    static RING: Cell<Option<Ring>> = const { Cell::new(None) };
}

/// Whether this process may have rings.
///
/// # Errors
/// Why not: `PERM` where `kernel.io_uring_disabled` or a filter forbids it, `NOSYS` where the kernel has none.
pub fn available() -> Result<(), Errno> {
    with_ring(&RING, SLOTS, PIECE, |_| Ok(()))
}

/// Lends this thread's ring, whose buffers are at least so long. One that was left with something under way is not kept.
fn with_ring<T>(
    kept: &'static std::thread::LocalKey<Cell<Option<Ring>>>,
    slots: usize,
    buffer: usize,
    lend: impl FnOnce(&mut Ring) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let mut ring = match kept.take().filter(|ring| ring.buffer_length() >= buffer) {
        Some(ring) => ring,
        None => Ring::new(slots, buffer)?,
    };
    let result = lend(&mut ring);
    ring.drain();
    if result.is_ok() {
        kept.set(Some(ring));
    }
    result
}

pub(super) fn copy(job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<(), Halt> {
    let mut is_left = false;
    let result = with_ring(&RING, SLOTS, PIECE, |ring| {
        let result = copy_by(ring, job, ranges);
        ring.drain();
        is_left = ring.under_way() > 0;
        result
    });
    match result {
        // A write may still be under way, so nothing else may write to this file.
        _ if is_left => Err(Halt::Failed(CopyError::Destination(Errno::IO))),
        result => result.map_err(Halt::Refused)?,
    }
}

/// Copies these ranges, as far as possible past the page cache.
///
/// # Errors
/// What the ring itself failed with.
fn copy_by(ring: &mut Ring, job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<Result<(), Halt>, Errno> {
    let mut direct = Direct::begin(job.destination, job.direct && ranges.len() == 1);
    if let ([range], true) = (ranges, direct.is_on()) {
        // Whole blocks first, and the tail through the page cache.
        let end = (range.end / ALIGN as u64 * ALIGN as u64).max(range.start);
        let (blocks, tail) = (range.start..end, end..range.end);
        if let Err(halt) = pump(ring, job, slice::from_ref(&blocks), &mut direct)? {
            return Ok(Err(halt));
        }
        direct.end();
        return pump(ring, job, slice::from_ref(&tail), &mut direct);
    }
    pump(ring, job, ranges, &mut direct)
}

/// Copies these ranges through the ring.
///
/// # Errors
/// What the ring itself failed with.
fn pump(
    ring: &mut Ring,
    job: &mut Job<'_>,
    ranges: &[Range<u64>],
    direct: &mut Direct<'_>,
) -> Result<Result<(), Halt>, Errno> {
    let mut coming = pieces(ranges, ring.buffer_length());
    let mut slots: Vec<Option<Piece>> = (0..ring.slots()).map(|_| None).collect();
    // The slots of the pieces that are begun and not yet counted, in the order of the file.
    let mut order: VecDeque<usize> = VecDeque::new();
    let mut ops: Vec<Op<'_>> = Vec::new();
    let (source, destination) = (job.source, job.destination);
    let mut goes_on = true;
    loop {
        if let Err(halt) = proceed(job.monitor) {
            return settle(ring, Err(halt));
        }
        while goes_on
            && let Some(slot) = slots.iter().position(Option::is_none)
            && let Some(range) = coming.next()
        {
            let piece = slots[slot].insert(Piece::of(slot, range));
            ops.extend(piece.next(source, destination));
            order.push_back(slot);
        }
        if order.is_empty() {
            return Ok(Ok(()));
        }
        for done in ring.turn(ops.drain(..))? {
            let Some(Some(piece)) = slots.get_mut(done.slot) else { continue };
            piece.take(done.outcome, direct);
            goes_on &= !piece.has_failed() && !piece.has_ended();
            ops.extend(piece.next(source, destination));
        }
        while let Some(piece) = order.front().and_then(|slot| slots[*slot].as_ref()).filter(|piece| piece.is_done()) {
            job.progress.done(piece.written());
            if piece.has_ended() {
                // What follows is behind the end.
                return settle(ring, Err(Halt::End));
            }
            let slot = order.pop_front().unwrap_or(0);
            slots[slot] = None;
        }
        // Those before it are done with first, so that as little as possible is copied twice.
        if let Some(halt) = order.front().and_then(|slot| slots[*slot].as_ref()).and_then(Piece::halt) {
            return settle(ring, Err(halt));
        }
    }
}

/// Waits for what is under way.
fn settle(ring: &mut Ring, result: Result<(), Halt>) -> Result<Result<(), Halt>, Errno> {
    ring.drain();
    Ok(result)
}

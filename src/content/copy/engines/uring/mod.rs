//! io_uring(7): copies one large file in pieces, many reads and writes at once. `small_files` copies many small files.

mod lend;
mod piece;

pub(crate) use lend::{Kept, lend_ring};

use super::calls::proceed;
use super::direct::Direct;
use super::driver::{Capabilities, Driver, Scope};
use super::job::{Halt, Job};
use super::pieces::pieces;
use crate::content::copy::types::CopyError;
use crate::fs::direct_io::ALIGN;
use crate::monitor::EngineRefusal;
use crate::sys::uring::{Op, Ring};
use piece::Piece;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ops::Range;
use std::slice;

/// The number of pieces that are copied at once, and their length in bytes. This fills the queue of a device and takes
/// 4 MiB for each thread, in addition to 8 MiB for the ring of small files.
const SLOTS: usize = 8;
const PIECE: usize = 512 << 10;

thread_local! {
    static RING: Kept = const { Kept::new(None) };
}

pub(super) const DRIVER: Driver = Driver {
    capabilities: Capabilities { takes_groups: true, scope: Scope::Process, explain, ..Capabilities::KERNEL_CALL },
    copy,
};

fn explain(errno: Errno) -> Option<EngineRefusal> {
    match errno {
        Errno::PERM | Errno::ACCESS => Some(EngineRefusal::RingForbidden),
        Errno::NOSYS => Some(EngineRefusal::RingMissing),
        Errno::NOMEM => Some(EngineRefusal::RingMemory),
        _ => None,
    }
}

/// Whether this process can have rings.
///
/// # Errors
/// `PERM` if `kernel.io_uring_disabled` or a filter forbids it, `NOSYS` if the kernel has no io_uring.
pub fn available() -> Result<(), Errno> {
    lend_ring(&RING, SLOTS, PIECE, |_| Ok(()))
}

fn copy(job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<(), Halt> {
    let mut has_pending = false;
    let result = lend_ring(&RING, SLOTS, PIECE, |ring| {
        let result = copy_with(ring, job, ranges);
        ring.drain();
        has_pending = ring.under_way() > 0;
        result
    });
    match result {
        // A write may still be pending, so nothing else may write to this file.
        _ if has_pending => Err(Halt::Failed(CopyError::Destination(Errno::IO))),
        Ok(Copying::Done) => Ok(()),
        Ok(Copying::Halted(halt)) => Err(halt),
        Err(errno) => Err(Halt::Refused(errno)),
    }
}

/// How copying through a working ring ended.
enum Copying {
    /// All ranges are copied.
    Done,
    /// The copy stopped early.
    Halted(Halt),
}

/// Copies these ranges, past the page cache if possible.
///
/// # Errors
/// Errors of the ring itself.
fn copy_with(ring: &mut Ring, job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<Copying, Errno> {
    let mut direct = Direct::begin(job.destination, job.direct && ranges.len() == 1);
    if let ([range], true) = (ranges, direct.is_on()) {
        // Whole blocks first, then the tail through the page cache.
        let end = (range.end / ALIGN as u64 * ALIGN as u64).max(range.start);
        let (blocks, tail) = (range.start..end, end..range.end);
        if let Copying::Halted(halt) = pump(ring, job, slice::from_ref(&blocks), &mut direct)? {
            return Ok(Copying::Halted(halt));
        }
        direct.end();
        return pump(ring, job, slice::from_ref(&tail), &mut direct);
    }
    pump(ring, job, ranges, &mut direct)
}

/// Copies these ranges through the ring.
///
/// # Errors
/// Errors of the ring itself.
fn pump(ring: &mut Ring, job: &mut Job<'_>, ranges: &[Range<u64>], direct: &mut Direct<'_>) -> Result<Copying, Errno> {
    let mut remaining = pieces(ranges, ring.buffer_length());
    let mut slots: Vec<Option<Piece>> = (0..ring.slots()).map(|_| None).collect();
    // The slots of pieces that were started and are not counted yet, in the order of the file.
    let mut order: VecDeque<usize> = VecDeque::new();
    let mut ops: Vec<Op<'_>> = Vec::new();
    let (source, destination) = (job.source, job.destination);
    let mut goes_on = true;
    loop {
        if let Err(halt) = proceed(job.monitor) {
            return Ok(settle(ring, halt));
        }
        while goes_on
            && let Some(slot) = slots.iter().position(Option::is_none)
            && let Some(range) = remaining.next()
        {
            let piece = slots[slot].insert(Piece::of(slot, range));
            ops.extend(piece.next(source, destination));
            order.push_back(slot);
        }
        if order.is_empty() {
            return Ok(Copying::Done);
        }
        for done in ring.turn(ops.drain(..))? {
            let Some(Some(piece)) = slots.get_mut(done.slot) else { continue };
            piece.record(done.outcome, direct);
            goes_on &= !piece.has_failed() && !piece.has_ended();
            ops.extend(piece.next(source, destination));
        }
        while let Some(piece) = order.front().and_then(|slot| slots[*slot].as_ref()).filter(|piece| piece.is_done()) {
            job.progress.done(piece.written());
            if piece.has_ended() {
                // Later pieces are after the end.
                return Ok(settle(ring, Halt::End));
            }
            let slot = order.pop_front().unwrap_or(0);
            slots[slot] = None;
        }
        // Earlier pieces are finished first, so that as little as possible is copied twice.
        if let Some(halt) = order.front().and_then(|slot| slots[*slot].as_ref()).and_then(Piece::halt) {
            return Ok(settle(ring, halt));
        }
    }
}

/// Waits for pending requests.
fn settle(ring: &mut Ring, halt: Halt) -> Copying {
    ring.drain();
    Copying::Halted(halt)
}

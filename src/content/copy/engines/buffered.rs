//! Read into a buffer, written from it. A long copy has two buffers and a thread that reads (and hashes) into one
//! while the other is written; a short one, for which a thread would take longer than the copy, goes in turn.
//!
//! It never refuses, and it knows which side failed: it is what all others end in.

use super::direct::Direct;
use super::hash_tee::HashTee;
use super::{Halt, Job, proceed, uninterrupted};
use crate::content::copy::content::CopyError;
use crate::fs::direct_io::{ALIGN, Aligned, Once};
use crate::fs::pread;
use crate::monitor::Monitor;
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// How much is read at once.
const BUFFER: usize = 1 << 20;
/// How many buffers go round between two threads.
const BUFFERS: usize = 2;
/// From so many bytes on, two threads.
const LONG: u64 = 4 << 20;

pub(super) fn copy(job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<(), Halt> {
    let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let mut direct = Direct::begin(job.destination, job.direct);
    // Ranges that do not fill a buffer were asked for ahead, and are in memory.
    let is_long = bytes >= LONG && ranges.iter().any(|range| range.end - range.start >= BUFFER as u64);
    match (ranges.first(), ranges.last()) {
        (Some(first), Some(last)) if is_long => {
            let source = Once::begin(job.source, first.start..last.end);
            side_by_side(job, &source, ranges, &mut direct)
        }
        _ => in_turn(job, &Once::short(job.source), ranges, &mut direct),
    }
}

fn in_turn(job: &mut Job<'_>, source: &Once<'_>, ranges: &[Range<u64>], direct: &mut Direct<'_>) -> Result<(), Halt> {
    let longest = ranges.iter().map(|range| range.end - range.start).max().unwrap_or(0);
    let mut buffer = Aligned::take(BUFFER.min(usize::try_from(longest).unwrap_or(BUFFER)));
    for piece in pieces(ranges, buffer.bytes().len()) {
        let length = (piece.end - piece.start) as usize;
        let got = read(source, &mut buffer.bytes_mut()[..length], piece.start, &mut job.passing, job.monitor)?;
        write(job.destination, direct, &buffer.bytes()[..got], piece.start)?;
        job.progress.done(piece.start..piece.start + got as u64);
        if got < length {
            return Err(Halt::End);
        }
    }
    Ok(())
}

/// A buffer with what was read into it.
struct Filled {
    buffer: Aligned,
    got: usize,
    at: u64,
}

fn side_by_side(
    job: &mut Job<'_>,
    source: &Once<'_>,
    ranges: &[Range<u64>],
    direct: &mut Direct<'_>,
) -> Result<(), Halt> {
    let Job { destination, monitor, passing, progress, .. } = job;
    let (destination, monitor) = (*destination, *monitor);
    let (give_empty, empty) = sync_channel(BUFFERS);
    let (give_filled, filled) = sync_channel(BUFFERS);
    for _ in 0..BUFFERS {
        // There is room for all of them.
        let _ = give_empty.send(Aligned::take(BUFFER));
    }
    let result = thread::scope(|scope| {
        let reading = move || read_on(source, ranges, passing, monitor, &empty, &give_filled);
        let Ok(reader) = thread::Builder::new().spawn_scoped(scope, reading) else { return None };
        let mut result = Ok(());
        for Filled { buffer, got, at } in &filled {
            result = write(destination, direct, &buffer.bytes()[..got], at);
            if result.is_err() {
                break;
            }
            progress.done(at..at + got as u64);
            let _ = give_empty.send(buffer);
        }
        // The reader has the other ends: without these it stops.
        drop((filled, give_empty));
        let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Some(result.and(read))
    });
    match result {
        Some(result) => result,
        // No thread is to be had: then by this one alone.
        None => in_turn(job, source, ranges, direct),
    }
}

/// What the reading thread does: fills what comes empty, until all is read or nobody wants more.
fn read_on(
    source: &Once<'_>,
    ranges: &[Range<u64>],
    passing: &mut Option<HashTee>,
    monitor: &dyn Monitor,
    empty: &Receiver<Aligned>,
    give_filled: &SyncSender<Filled>,
) -> Result<(), Halt> {
    for piece in pieces(ranges, BUFFER) {
        let length = (piece.end - piece.start) as usize;
        let Ok(mut buffer) = empty.recv() else { return Ok(()) };
        let got = read(source, &mut buffer.bytes_mut()[..length], piece.start, passing, monitor)?;
        if give_filled.send(Filled { buffer, got, at: piece.start }).is_err() {
            return Ok(());
        }
        if got < length {
            return Err(Halt::End);
        }
    }
    Ok(())
}

fn read(
    source: &Once<'_>,
    buffer: &mut [u8],
    at: u64,
    passing: &mut Option<HashTee>,
    monitor: &dyn Monitor,
) -> Result<usize, Halt> {
    proceed(monitor)?;
    let failed = |errno| Halt::Failed(CopyError::Source(errno));
    // What is small was asked for before, and stays for the next who reads it.
    let got = match buffer.len() < BUFFER {
        true => pread::read_full(source.file(), buffer, at),
        false => source.read(buffer, at),
    };
    let got = got.map_err(failed)?;
    if let Some(passing) = passing {
        passing.take(&buffer[..got], at, monitor).map_err(failed)?;
    }
    Ok(got)
}

/// The ranges in pieces that fit a buffer and begin at its multiples.
pub(super) fn pieces(ranges: &[Range<u64>], buffer: usize) -> impl Iterator<Item = Range<u64>> {
    let buffer = (buffer as u64).max(1);
    ranges.iter().flat_map(move |range| {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let end = range.end.min((at / buffer + 1) * buffer);
            let piece = at..end;
            at = end;
            (!piece.is_empty()).then_some(piece)
        })
    })
}

/// Writes a buffer, past the page cache as long as that goes.
fn write(file: BorrowedFd<'_>, direct: &mut Direct<'_>, bytes: &[u8], at: u64) -> Result<(), Halt> {
    let mut done = 0;
    if direct.is_on() {
        let blocks = if at.is_multiple_of(ALIGN as u64) { bytes.len() / ALIGN * ALIGN } else { 0 };
        while done < blocks {
            match uninterrupted(|| rustix::io::pwrite(file, &bytes[done..blocks], at + done as u64)) {
                // What is not done to a block's end goes the other way.
                Ok(now) if now > 0 && now.is_multiple_of(ALIGN) => done += now,
                Ok(_) | Err(Errno::INVAL | Errno::OPNOTSUPP) => break,
                Err(errno) => return Err(Halt::Failed(CopyError::Destination(errno))),
            }
        }
        if done < bytes.len() {
            direct.end();
        }
    }
    let rest = &bytes[done..];
    pread::write_all(file, rest, at + done as u64).map_err(|errno| Halt::Failed(CopyError::Destination(errno)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_begin_at_multiples_of_the_buffer() {
        let all: Vec<_> = pieces(&[5..20, 30..31, 40..60], 10).collect();
        assert_eq!(all, [5..10, 10..20, 30..31, 40..50, 50..60]);
        assert_eq!(pieces(&[], 10).count(), 0);
    }
}

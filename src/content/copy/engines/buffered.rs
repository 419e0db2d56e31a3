//! Reads into a buffer and writes from it. A long copy has two buffers and a thread that reads (and hashes) into one
//! while the other is written. For a short copy, starting a thread would take longer than the copy.
//!
//! This engine never refuses and knows which side failed, so every fallback ends here.

use super::calls::{proceed, uninterrupted};
use super::direct::Direct;
use super::driver::{Capabilities, Driver, Scope};
use super::job::{Halt, Job};
use super::pieces::pieces;
use crate::content::copy::types::CopyError;
use crate::content::hash::StreamHash;
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
/// How many buffers two threads exchange.
const BUFFERS: usize = 2;
/// The shortest copy with two threads, in bytes.
const LONG: u64 = 4 << 20;

pub(super) const DRIVER: Driver = Driver {
    capabilities: Capabilities {
        clones: false,
        hashes: true,
        can_refuse: false,
        knows_end: true,
        takes_groups: false,
        longest_write: BUFFER as u64,
        scope: Scope::Device,
        explain: |_| None,
    },
    copy,
};

fn copy(job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<(), Halt> {
    let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let mut direct = Direct::begin(job.destination, job.direct);
    // Ranges shorter than a buffer were prefetched and are in memory.
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
        let got = read(source, &mut buffer.bytes_mut()[..length], piece.start, &mut job.hash, job.monitor)?;
        write(job.destination, direct, &buffer.bytes()[..got], piece.start)?;
        job.progress.done(piece.start..piece.start + got as u64);
        if got < length {
            return Err(Halt::End);
        }
    }
    Ok(())
}

/// A buffer and the bytes read into it.
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
    let Job { destination, monitor, hash, progress, .. } = job;
    let (destination, monitor) = (*destination, *monitor);
    let (give_empty, empty) = sync_channel(BUFFERS);
    let (give_filled, filled) = sync_channel(BUFFERS);
    for _ in 0..BUFFERS {
        // The channel has room for all of them.
        let _ = give_empty.send(Aligned::take(BUFFER));
    }
    let result = thread::scope(|scope| {
        let reading = move || read_on(source, ranges, hash, monitor, &empty, &give_filled);
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
        // The reader stops when its channels close.
        drop((filled, give_empty));
        let read = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Some(result.and(read))
    });
    match result {
        Some(result) => result,
        // No thread could be started.
        None => in_turn(job, source, ranges, direct),
    }
}

/// The reading thread: fills empty buffers until all is read or the writer stops.
fn read_on(
    source: &Once<'_>,
    ranges: &[Range<u64>],
    hash: &mut Option<StreamHash>,
    monitor: &dyn Monitor,
    empty: &Receiver<Aligned>,
    give_filled: &SyncSender<Filled>,
) -> Result<(), Halt> {
    for piece in pieces(ranges, BUFFER) {
        let length = (piece.end - piece.start) as usize;
        let Ok(mut buffer) = empty.recv() else { return Ok(()) };
        let got = read(source, &mut buffer.bytes_mut()[..length], piece.start, hash, monitor)?;
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
    hash: &mut Option<StreamHash>,
    monitor: &dyn Monitor,
) -> Result<usize, Halt> {
    proceed(monitor)?;
    let failed = |errno| Halt::Failed(CopyError::Source(errno));
    // Short pieces were prefetched, and stay cached for the next reader.
    let got = match buffer.len() < BUFFER {
        true => pread::read_full(source.file(), buffer, at),
        false => source.read(buffer, at),
    };
    let got = got.map_err(failed)?;
    if let Some(hash) = hash {
        hash.append_at(&buffer[..got], at, monitor).map_err(failed)?;
    }
    Ok(got)
}

/// Writes a buffer, past the page cache as far as possible.
fn write(file: BorrowedFd<'_>, direct: &mut Direct<'_>, bytes: &[u8], at: u64) -> Result<(), Halt> {
    let mut done = 0;
    if direct.is_on() {
        let blocks = if at.is_multiple_of(ALIGN as u64) { bytes.len() / ALIGN * ALIGN } else { 0 };
        while done < blocks {
            match uninterrupted(|| rustix::io::pwrite(file, &bytes[done..blocks], at + done as u64)) {
                // The rest after a partial block goes through the page cache.
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

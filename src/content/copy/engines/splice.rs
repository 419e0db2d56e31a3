//! splice(2): pages of the source go through a pipe of this process into the destination.
//!
//! Only the way into the pipe is free of copies: what comes out is copied into the destination's pages.

use super::{Halt, Job, judge, repeat, uninterrupted};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::ops::Range;
use std::os::fd::OwnedFd;

/// The most that a pipe may hold without rights (`/proc/sys/fs/pipe-max-size`), and what a call is asked for.
const PIPE: u64 = 1 << 20;

pub(super) fn copy(job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<(), Halt> {
    let (reader, writer) = pipe(ranges).map_err(judge)?;
    repeat(job, ranges, PIPE, |job, at, length| {
        let mut from = at;
        let call = || splice(job.source, Some(&mut from), &writer, None, length, SpliceFlags::MOVE);
        let filled = uninterrupted(call).map_err(judge)?;
        let mut to = at;
        let mut left = filled;
        while left > 0 {
            let call = || splice(&reader, None, job.destination, Some(&mut to), left, SpliceFlags::MOVE);
            match uninterrupted(call).map_err(judge) {
                Ok(0) => return Err(Halt::Unclear),
                Ok(done) => left -= done,
                // What is left in the pipe goes with it; what went through counts.
                Err(_) if left < filled => return Ok(filled - left),
                Err(halt) => return Err(halt),
            }
        }
        Ok(filled)
    })
}

/// A pipe that holds as much as it may, unless there is less to bring.
fn pipe(ranges: &[Range<u64>]) -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    if ranges.iter().any(|range| range.end - range.start > 1 << 16) {
        // A user near the limit of all pipes (`pipe-user-pages-soft`) is refused: then it takes more calls.
        let _ = fcntl_setpipe_size(&writer, PIPE as usize);
    }
    Ok((reader, writer))
}

//! splice(2): moves pages of the source through a pipe of this process.
//!
//! Only the way into the pipe is zero-copy. The way out copies into the pages of the destination.

use super::calls::{judge, repeat, uninterrupted};
use super::driver::{Capabilities, Driver};
use super::job::{Halt, Job};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::ops::Range;
use std::os::fd::OwnedFd;

/// The largest pipe without privileges (`/proc/sys/fs/pipe-max-size`), and the length of a call.
const PIPE: u64 = 1 << 20;

pub(super) const DRIVER: Driver = Driver { capabilities: Capabilities::KERNEL_CALL, copy };

fn copy(job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<(), Halt> {
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
                // The pipe still has the rest, which must not be written at another place. Another engine writes all of
                // it again.
                Err(_) if left < filled => return Err(Halt::Unclear),
                Err(halt) => return Err(halt),
            }
        }
        Ok(filled)
    })
}

/// A pipe of the largest size, unless the ranges are short.
fn pipe(ranges: &[Range<u64>]) -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    if ranges.iter().any(|range| range.end - range.start > 1 << 16) {
        // The kernel refuses a user near the limit of all pipes (`pipe-user-pages-soft`). Then there are more calls.
        let _ = fcntl_setpipe_size(&writer, PIPE as usize);
    }
    Ok((reader, writer))
}

//! mmap(2): maps the source a window at a time and writes from the mapping. Adjacent data is one range here and is
//! written with large writes.
//!
//! Only the kernel reads the mapping, inside write(2). This process never does, so a source that is truncated during
//! the copy raises no SIGBUS: the write is short or fails with `EFAULT`, and the size of the source shows the reason.
//! For the same reason this engine cannot hash: the hash is computed from the copy.

use super::calls::{judge, repeat, uninterrupted};
use super::driver::{Capabilities, Driver};
use super::job::{Halt, Job};
use crate::sys::mmap::Mapping;
use rustix::io::Errno;
use std::ops::Range;

/// How much is mapped at once.
const WINDOW: u64 = 64 << 20;
/// How much is written at once. Longer writes were not faster, and 8 MiB took up to twice the CPU time.
const WRITE: u64 = 1 << 20;

pub(super) const DRIVER: Driver = Driver { capabilities: Capabilities::KERNEL_CALL, copy };

fn copy(job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<(), Halt> {
    let last = ranges.last().map_or(0, |range| range.end);
    let mut window: Option<(Range<u64>, Mapping)> = None;
    repeat(job, ranges, WRITE, |job, at, length| {
        let (range, mapping) = match window.take_if(|(range, _)| range.contains(&at)) {
            Some(kept) => kept,
            None => {
                // Mappings consist of pages. The last page of a file is complete in memory.
                let start = at / WINDOW * WINDOW;
                let end = last.min(start + WINDOW);
                (start..end, Mapping::of(job.source, start, (end - start) as usize).map_err(judge)?)
            }
        };
        let from = (at - range.start) as usize;
        let written = uninterrupted(|| mapping.write_to(from..from + length, job.destination, at));
        window = Some((range, mapping));
        match written {
            Ok(done) => Ok(done),
            // The page is gone or cannot be read.
            Err(Errno::FAULT) => match rustix::fs::fstat(job.source) {
                Ok(stat) if (stat.st_size as u64) <= at => Err(Halt::End),
                _ => Err(Halt::Unclear),
            },
            Err(errno) => Err(judge(errno)),
        }
    })
}

//! mmap(2): the source is mapped, a window at a time, and written straight from there. What lies side by side is one range when
//! it comes here, and goes by large writes.
//!
//! Only the kernel reads the mapping, inside write(2); this process never does. So a source that is truncated meanwhile raises no
//! SIGBUS: the write is short, or says `EFAULT`, and the source's size tells which it was. That is also why the hash
//! of what is copied so is taken from the copy.

use super::{Halt, Job, judge, repeat, uninterrupted};
use crate::sys::mmap::Mapping;
use rustix::io::Errno;
use std::ops::Range;

/// How much is mapped at once.
const WINDOW: u64 = 64 << 20;
/// How much is written at once. Longer writes were not faster, and 8 MiB took up to twice the processor's time.
const WRITE: u64 = 1 << 20;

pub(super) fn copy(job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<(), Halt> {
    let last = ranges.last().map_or(0, |range| range.end);
    let mut window: Option<(Range<u64>, Mapping)> = None;
    repeat(job, ranges, WRITE, |job, at, length| {
        let (range, mapping) = match window.take_if(|(range, _)| range.contains(&at)) {
            Some(kept) => kept,
            None => {
                // Pages only: the last one of a file is whole in memory.
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
            // A page that is not there any more, or cannot be read.
            Err(Errno::FAULT) => match rustix::fs::fstat(job.source) {
                Ok(stat) if (stat.st_size as u64) <= at => Err(Halt::End),
                _ => Err(Halt::Unclear),
            },
            Err(errno) => Err(judge(errno)),
        }
    })
}

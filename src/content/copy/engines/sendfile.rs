//! sendfile(2): the kernel copies, by a splice through a pipe of its own.

use super::{Halt, Job, judge, repeat, uninterrupted};
use rustix::fs::SeekFrom;
use std::ops::Range;

/// The most of one call: the kernel takes 2 GiB, but nobody can stop it meanwhile.
const MOST: u64 = 64 << 20;

pub(super) fn copy(job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<(), Halt> {
    let mut position = None;
    repeat(job, ranges, MOST, |job, at, length| {
        // It writes at the file's own position.
        if position != Some(at) {
            rustix::fs::seek(job.destination, SeekFrom::Start(at)).map_err(judge)?;
        }
        let mut from = at;
        let call = || rustix::fs::sendfile(job.destination, job.source, Some(&mut from), length);
        let done = uninterrupted(call).map_err(judge)?;
        position = Some(at + done as u64);
        Ok(done)
    })
}

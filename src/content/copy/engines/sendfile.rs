//! sendfile(2): the kernel copies by splicing through a pipe of its own.

use super::calls::{judge, repeat, uninterrupted};
use super::driver::{Capabilities, Driver};
use super::job::{Halt, Job};
use rustix::fs::SeekFrom;
use std::ops::Range;

/// The longest call. The kernel accepts 2 GiB, but a call cannot be cancelled.
const MOST: u64 = 64 << 20;

pub(super) const DRIVER: Driver = Driver { capabilities: Capabilities::KERNEL_CALL, copy };

fn copy(job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<(), Halt> {
    let mut position = None;
    repeat(job, ranges, MOST, |job, at, length| {
        // sendfile(2) writes at the file position.
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

//! Standard input for engines that read until its end. A signal that asks to stop ends a wait for more.

use crate::monitor::Monitor;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{Error, Read, Result, StdinLock};

/// How long a wait may last before the monitor is asked.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Standard input, until the monitor cancels.
pub(super) struct StandardInput<'a> {
    stdin: StdinLock<'static>,
    monitor: &'a dyn Monitor,
}

impl<'a> StandardInput<'a> {
    pub(super) fn new(monitor: &'a dyn Monitor) -> StandardInput<'a> {
        StandardInput { stdin: std::io::stdin().lock(), monitor }
    }
}

impl Read for StandardInput<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            if self.monitor.is_cancelled() {
                return Err(Error::other("interrupted"));
            }
            match poll(&mut [PollFd::new(&self.stdin, PollFlags::IN)], Some(&PATIENCE)) {
                Ok(0) | Err(Errno::INTR) => {}
                // Nothing else reads it, so the library has no bytes in its buffer.
                _ => return Ok(rustix::io::read(&self.stdin, buffer)?),
            }
        }
    }
}

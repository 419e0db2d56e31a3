//! A piece of a file on its way through a slot of a ring: read until it is whole or the file ends, then written.

use super::super::direct::Direct;
use super::super::{Halt, judge};
use crate::content::copy::content::CopyError;
use crate::sys::uring::{Op, Outcome};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::BorrowedFd;

pub(super) struct Piece {
    slot: usize,
    range: Range<u64>,
    /// Bytes read, and of those written.
    got: usize,
    put: usize,
    /// Whether no more is to be read.
    is_read: bool,
    halt: Option<Halt>,
}

impl Piece {
    pub(super) fn of(slot: usize, range: Range<u64>) -> Piece {
        Piece { slot, range, got: 0, put: 0, is_read: false, halt: None }
    }

    /// What is to be asked for next, if anything is.
    pub(super) fn next<'a>(&self, source: BorrowedFd<'a>, destination: BorrowedFd<'a>) -> Option<Op<'a>> {
        let (slot, start) = (self.slot, self.range.start);
        match self.is_read {
            _ if self.halt.is_some() => None,
            false => Some(Op::Read { slot, file: source, into: self.got..self.length(), at: start + self.got as u64 }),
            true if self.put < self.got => {
                Some(Op::Write { slot, file: destination, from: self.put..self.got, at: start + self.put as u64 })
            }
            true => None,
        }
    }

    /// Takes what came of it.
    pub(super) fn take(&mut self, outcome: rustix::io::Result<Outcome>, direct: &mut Direct<'_>) {
        match outcome {
            // The next one is made again.
            Err(Errno::INTR) => {}
            // Not everything can be written past the page cache, and the kernel does not say what.
            Err(Errno::INVAL) if self.is_read && direct.end() => {}
            Err(errno) => self.halt = Some(self.failure(errno)),
            Ok(Outcome::Moved(0)) if self.is_read => {
                self.halt = Some(Halt::Failed(CopyError::Destination(Errno::NOSPC)))
            }
            Ok(Outcome::Moved(bytes)) if self.is_read => self.put += bytes,
            Ok(Outcome::Moved(bytes)) => {
                self.got += bytes;
                self.is_read = bytes == 0 || self.got == self.length();
            }
            Ok(Outcome::Opened(_)) => self.halt = Some(Halt::Unclear),
        }
    }

    /// Here the side is known.
    fn failure(&self, errno: Errno) -> Halt {
        match (judge(errno), self.is_read) {
            (Halt::Unclear, true) => Halt::Failed(CopyError::Destination(errno)),
            (Halt::Unclear, false) => Halt::Failed(CopyError::Source(errno)),
            (halt, _) => halt,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.halt.is_none() && self.is_read && self.put == self.got
    }

    /// Whether the source ended before the piece did.
    pub(super) fn has_ended(&self) -> bool {
        self.is_read && self.got < self.length()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.halt.is_some()
    }

    pub(super) fn halt(&self) -> Option<Halt> {
        self.halt
    }

    /// What of the file is in the destination.
    pub(super) fn written(&self) -> Range<u64> {
        self.range.start..self.range.start + self.put as u64
    }

    fn length(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }
}

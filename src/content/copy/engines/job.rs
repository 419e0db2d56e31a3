//! What an engine works on: the job, its progress, and the reasons to stop early.

use crate::content::copy::types::CopyError;
use crate::content::hash::StreamHash;
use crate::monitor::{Amount, Monitor};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// One file to copy.
pub(crate) struct Job<'a> {
    pub(crate) source: BorrowedFd<'a>,
    pub(crate) destination: BorrowedFd<'a>,
    /// Whether to write past the page cache, if the engine can.
    pub(crate) direct: bool,
    pub(crate) monitor: &'a dyn Monitor,
    /// Hashes the data that passes, for an engine that does so.
    pub(crate) hash: Option<StreamHash>,
    pub(crate) progress: Progress<'a>,
}

/// How far a copy has come.
pub(crate) struct Progress<'a> {
    /// All data before this offset is in the destination.
    pub(crate) at: u64,
    /// Bytes of data copied.
    pub(crate) data: u64,
    monitor: &'a dyn Monitor,
}

/// Why an engine stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The source has no more data, as far as this engine knows.
    End,
    /// The engine cannot copy these files. They are intact.
    Refused(Errno),
    /// A failure on an unknown side.
    Unclear,
    /// A failure on a known side.
    Failed(CopyError),
}

impl<'a> Progress<'a> {
    pub(crate) fn new(monitor: &'a dyn Monitor) -> Self {
        Progress { at: 0, data: 0, monitor }
    }

    /// Records that the data of this range, and all data before it, is in the destination.
    pub(super) fn done(&mut self, range: Range<u64>) {
        let bytes = range.end - range.start;
        self.at = range.end;
        self.data += bytes;
        self.monitor.advance(Amount { files: 0, bytes });
    }
}

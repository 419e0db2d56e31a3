//! The engines, one a file: each copies ranges of data, in their order, and says how far it came.
//!
//! An engine neither clones nor seeks for holes nor decides what is tried next; that is `data`'s.

mod buffered;
mod copy_file_range;
mod direct;
pub(super) mod endless;
mod hash_tee;
mod mmap;
mod sendfile;
mod splice;
pub mod uring;

pub(super) use hash_tee::HashTee;

use super::content::CopyError;
use super::engine::Engine;
use crate::monitor::{Amount, Monitor};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// One file to be copied.
pub(super) struct Job<'a> {
    pub(super) source: BorrowedFd<'a>,
    pub(super) destination: BorrowedFd<'a>,
    /// Whether to write past the page cache where the engine can.
    pub(super) direct: bool,
    pub(super) monitor: &'a dyn Monitor,
    /// Takes the hash of what passes, if that is wanted and can be had so.
    pub(super) passing: Option<HashTee>,
    pub(super) progress: Progress<'a>,
}

/// How far a copy has come.
pub(super) struct Progress<'a> {
    /// All data before this offset is in the destination.
    pub(super) at: u64,
    /// How many bytes of data that were.
    pub(super) data: u64,
    monitor: &'a dyn Monitor,
}

/// Why an engine stopped before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Halt {
    /// The source has no more, as far as this engine can tell.
    End,
    /// It does not serve for these files; nothing of them is broken.
    Refused(Errno),
    /// A failure of which it does not know the side.
    Unclear,
    /// A failure.
    Failed(CopyError),
}

impl<'a> Progress<'a> {
    pub(super) fn new(monitor: &'a dyn Monitor) -> Self {
        Progress { at: 0, data: 0, monitor }
    }

    /// Notes that the data of this range, and all before it, is in the destination.
    pub(super) fn done(&mut self, range: Range<u64>) {
        let bytes = range.end - range.start;
        self.at = range.end;
        self.data += bytes;
        self.monitor.advance(Amount { files: 0, bytes });
    }
}

/// Has an engine copy these ranges.
pub(super) fn run(engine: Engine, job: &mut Job<'_>, ranges: &[Range<u64>]) -> Result<(), Halt> {
    match engine {
        Engine::CopyFileRange => copy_file_range::copy(job, ranges),
        Engine::Sendfile => sendfile::copy(job, ranges),
        Engine::Splice => splice::copy(job, ranges),
        Engine::Mmap => mmap::copy(job, ranges),
        // A clone is not of ranges.
        Engine::Clone => Err(Halt::Refused(Errno::OPNOTSUPP)),
        Engine::Uring => uring::copy(job, ranges),
        Engine::Buffered => buffered::copy(job, ranges),
    }
}

/// Calls with what is left of each range until all is done; the call says how many bytes it did.
fn repeat(
    job: &mut Job<'_>,
    ranges: &[Range<u64>],
    most: u64,
    mut call: impl FnMut(&Job<'_>, u64, usize) -> Result<usize, Halt>,
) -> Result<(), Halt> {
    for range in ranges {
        let mut at = range.start;
        while at < range.end {
            proceed(job.monitor)?;
            // At multiples of it, so that whole blocks stay whole blocks.
            let end = range.end.min((at / most + 1) * most);
            let done = call(job, at, (end - at) as usize)? as u64;
            if done == 0 {
                return Err(Halt::End);
            }
            job.progress.done(at..at + done);
            at += done;
        }
    }
    Ok(())
}

/// Whether to go on.
fn proceed(monitor: &dyn Monitor) -> Result<(), Halt> {
    match monitor.is_cancelled() {
        true => Err(Halt::Failed(CopyError::Source(Errno::CANCELED))),
        false => Ok(()),
    }
}

/// What the error of a call means that reads and writes in one.
fn judge(errno: Errno) -> Halt {
    match errno {
        Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::FBIG => Halt::Failed(CopyError::Destination(errno)),
        Errno::XDEV
        | Errno::OPNOTSUPP
        | Errno::NOTTY
        | Errno::NOSYS
        | Errno::INVAL
        | Errno::PERM
        | Errno::ACCESS
        | Errno::BADF
        | Errno::TXTBSY
        | Errno::NODEV
        | Errno::MFILE
        | Errno::NFILE
        | Errno::AGAIN
        | Errno::OVERFLOW => Halt::Refused(errno),
        _ => Halt::Unclear,
    }
}

/// Makes a call again that a signal interrupted.
fn uninterrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

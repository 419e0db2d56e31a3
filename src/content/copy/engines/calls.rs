//! How engines make system calls: in steps that can be cancelled, repeated after a signal, with their errors judged.

use super::job::{Halt, Job};
use crate::content::copy::types::CopyError;
use crate::monitor::Monitor;
use rustix::io::Errno;
use std::ops::Range;

/// Calls with the rest of each range until all ranges are done. The call returns the bytes that it copied.
pub(super) fn repeat(
    job: &mut Job<'_>,
    ranges: &[Range<u64>],
    most: u64,
    mut call: impl FnMut(&Job<'_>, u64, usize) -> Result<usize, Halt>,
) -> Result<(), Halt> {
    for range in ranges {
        let mut at = range.start;
        while at < range.end {
            proceed(job.monitor)?;
            // Calls end at multiples of `most`, so that whole blocks stay whole.
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

/// Stops if the monitor asks for it.
pub(super) fn proceed(monitor: &dyn Monitor) -> Result<(), Halt> {
    match monitor.is_cancelled() {
        true => Err(Halt::Failed(CopyError::Source(Errno::CANCELED))),
        false => Ok(()),
    }
}

/// What an error means, if the call both reads and writes.
pub(crate) fn judge(errno: Errno) -> Halt {
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

/// Repeats a call that a signal interrupted.
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

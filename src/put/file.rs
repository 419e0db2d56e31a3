//! An input that is itself a file. If the filesystem can clone it, none of its data passes through pleach; otherwise
//! several threads read it.

use super::base::Base;
use super::input::{File, Input};
use super::job::{Content, Failure, Job};
use crate::content::copy::{CopyError, is_fatal};
use crate::content::delta;
use crate::content::hash;
use crate::fs::filesystem::Kind;
use crate::fs::status::Status;
use crate::sys::reflink;
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};

/// Files from this size on are read by several threads, in bytes.
const LARGE: u64 = 8 << 20;
/// The number of threads: enough to keep a solid-state disk busy.
const READERS: usize = 4;

/// Makes the empty file `out` a clone of the rest of the input, and shares the data that equals the base. `None` if the
/// input cannot be cloned; then `out` is unchanged.
pub(super) fn clone(
    job: &Job<'_>,
    input: &Input<'_>,
    base: Option<&Base<'_>>,
    out: &OwnedFd,
) -> Result<Option<Content>, Failure> {
    let Some(File { at, .. }) = input.file.filter(|file| file.at.is_multiple_of(job.block)) else { return Ok(None) };
    let cloned = match at {
        0 => reflink::clone(input.fd, out),
        at => reflink::clone_range(input.fd, at, 0, out, 0),
    };
    match cloned {
        Ok(()) => {}
        Err(errno) if is_fatal(errno) || errno == Errno::IO => return Err(Failure::Output(errno)),
        Err(_) => return Ok(None),
    }
    // From here on the input may change without effect on its clone.
    let size = Status::of(out).map_err(Failure::Output)?.size;
    let hashed = job.options.expect_blake3.is_some();
    let mut content = Content { size, ..Content::default() };
    match base {
        Some(base) if size > 0 => {
            // The kernel compares data before it shares, so the base need not be frozen.
            let base = delta::Base { file: base.source(), size: base.size(), list: None };
            let extents = delta::Extents { freed_whole: job.kind == Kind::Btrfs, differing: None };
            let shared = delta::share(out.as_fd(), size, &base, extents, None, &options(job, size));
            let shared = shared.map_err(failure)?;
            (content.read, content.hash) = (shared.read, shared.hash);
        }
        _ if hashed => {
            let hashed = hash::any_file(out, size, job.monitor);
            let (hash, read) = hashed.map_err(|errno| failure(CopyError::Source(errno)))?;
            (content.read, content.hash) = (read, Some(hash));
        }
        _ => {}
    }
    input.is_taken(at + size);
    Ok(Some(content))
}

/// Gives `out`, a clone of the base or an empty file, the content of the input from its beginning. `None` if the input
/// is at another position.
pub(super) fn update(
    job: &Job<'_>,
    input: &Input<'_>,
    base: Option<&Base<'_>>,
    out: &OwnedFd,
) -> Result<Option<Content>, Failure> {
    let Some(File { status, at: 0 }) = input.file else { return Ok(None) };
    let size = status.size;
    let base = base.map(|base| delta::Base { file: base.frozen(), size: base.size(), list: None });
    let updated = delta::update(input.fd, size, base.as_ref(), out.as_fd(), None, &options(job, size));
    let delta::Updated { read, base_read, hash, .. } = updated.map_err(failure)?;
    input.is_taken(size);
    Ok(Some(Content { size, read: read + base_read, hash }))
}

fn options<'a>(job: &'a Job<'_>, size: u64) -> delta::Options<'a> {
    let readers = job.options.threads.unwrap_or(READERS).clamp(1, READERS);
    delta::Options {
        block: job.block,
        hashed: job.options.expect_blake3.is_some(),
        threads: if size >= LARGE { readers } else { 1 },
        monitor: job.monitor,
    }
}

fn failure(error: CopyError) -> Failure {
    match error {
        CopyError::Source(Errno::CANCELED) => Failure::Interrupted,
        CopyError::Source(errno) => Failure::Input(errno),
        CopyError::Destination(errno) => Failure::Output(errno),
        // Only occurs for a clone requested on its own.
        CopyError::Refused(_) => Failure::Output(Errno::OPNOTSUPP),
    }
}

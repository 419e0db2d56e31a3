//! An input that is itself a file: nothing of it has to pass through here where the filesystem can clone it; elsewhere
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
/// How many: as many as a solid-state disk needs to be busy.
const READERS: usize = 4;

/// Makes the empty file `out` a clone of the rest of the input, and has it share with the base what is equal in
/// both. `None` where the input cannot be cloned; then `out` is as it was.
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
    // From here on the input may change: its clone does not.
    let size = Status::of(out).map_err(Failure::Output)?.size;
    let hashed = job.options.expect_blake3.is_some();
    let mut content = Content { size, ..Content::default() };
    match base {
        Some(base) if size > 0 => {
            // The kernel compares what it shares, so the base need not be frozen.
            let base = delta::Base { file: base.source(), size: base.size(), list: None };
            let by_extent = job.kind == Kind::Btrfs;
            let shared = delta::share(out.as_fd(), size, &base, by_extent, &options(job, size)).map_err(failure)?;
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

/// Makes `out`, a clone of the base or an empty file, what the input is, from its beginning. `None` if that is not
/// where it stands.
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
        // Only of a clone that is asked for alone.
        CopyError::Refused(_) => Failure::Output(Errno::OPNOTSUPP),
    }
}

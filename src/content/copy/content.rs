//! Copies a file: clones it if possible, otherwise copies its data. Copying data is in `data`.

use super::data::{self, hash_of};
use super::engine::Engine;
use super::engines;
use super::file_copy::FileCopy;
use super::reason::Reason;
use super::reserved;
use super::strategy::{CloneError, Strategy};
use super::types::{Copied, CopyError, Request, is_fatal};
use crate::extents::extent::ExtentFlags;
use crate::fs::filesystem::Kind;
use crate::fs::sparse;
use crate::monitor::Amount;
use crate::sys::fiemap;
use std::os::fd::BorrowedFd;

/// Makes the destination the content of the source.
///
/// A source that has become shorter gives a shorter copy; the caller compares its status before and after. A source
/// with size 0 and no blocks (files in procfs) is read until it ends.
///
/// # Errors
/// Errors of the kernel, with the side that failed; `CANCELED` of the source when the monitor asks to stop.
pub fn content(copy: &FileCopy<'_>, request: &Request) -> Result<Copied, CopyError> {
    clone_or_copy(copy, request, request, || ())
}

/// Like [`content`]. Calls `prepare` before the source is read, but not before it is cloned.
pub fn content_preparing_reads(
    copy: &FileCopy<'_>,
    request: &Request,
    prepare: impl FnOnce(),
) -> Result<Copied, CopyError> {
    clone_or_copy(copy, request, request, prepare)
}

/// Like [`content`], with the engine chosen for the file. Computes the hash only of data that must be copied, because
/// that passes through this process anyway. A clone is not read.
pub fn content_hashing_copies(copy: &FileCopy<'_>) -> Result<Copied, CopyError> {
    clone_or_copy(copy, &Request::default(), &Request { hashed: true, ..Request::default() }, || ())
}

/// Clones by the first request, otherwise copies by the second, after calling `prepare`.
fn clone_or_copy(
    copy: &FileCopy<'_>,
    request: &Request,
    otherwise: &Request,
    prepare: impl FnOnce(),
) -> Result<Copied, CopyError> {
    let mut reason = None;
    if copy.status.size > 0 && request.engine.is_none_or(engines::clones) {
        match clone(copy, request)? {
            Cloning::Done(copied) => return Ok(copied),
            Cloning::Refused(refused) if request.engine.is_some() => return Err(CopyError::Refused(refused)),
            Cloning::Refused(refused) => reason = Some(refused),
        }
    }
    prepare();
    let copied = data::data(copy, otherwise)?;
    Ok(Copied { reason, ..copied })
}

/// The result of trying to clone a file.
enum Cloning {
    /// The destination is a clone.
    Done(Copied),
    /// The destination is still empty.
    Refused(Reason),
}

fn clone(copy: &FileCopy<'_>, request: &Request) -> Result<Cloning, CopyError> {
    let FileCopy { source, status, destination, strategy, monitor } = *copy;
    match strategy.clone(source, status.dev, destination) {
        Ok(()) => {}
        Err(CloneError::Copy(reason)) => return Ok(Cloning::Refused(reason)),
        Err(CloneError::Failed(errno)) if is_fatal(errno) || request.engine.is_some() => {
            return Err(CopyError::Destination(errno));
        }
        // Probably only this file: the copy that follows succeeds, or fails with the side known.
        Err(CloneError::Failed(_)) => {
            rustix::fs::ftruncate(destination, 0).map_err(CopyError::Destination)?;
            return Ok(Cloning::Refused(Reason::Failed));
        }
    }
    let size = status.size;
    let holes = sparse::holes(source, size).map_err(CopyError::Source)?;
    let mut copied = Copied { holes, ..Copied::by(Engine::Clone) };
    match is_inline(destination, size, strategy) {
        true => copied.data = size - holes,
        false => copied.cloned = size - holes,
    }
    if holes > 0 {
        // XFS shares only written data.
        reserved::keep(source, status, size - holes, destination)?;
    }
    if request.hashed {
        let hashed = hash_of(destination, size, monitor)?;
        copied.hash = hashed.hash;
        copied.read = hashed.read;
    }
    monitor.advance(Amount { files: 0, bytes: size });
    Ok(Cloning::Done(copied))
}

/// Whether Btrfs stores a cloned file with its metadata, where nothing is shared. No other filesystem with reflinks
/// does.
fn is_inline(file: BorrowedFd<'_>, size: u64, strategy: &Strategy) -> bool {
    /// The longest such file: a block of the smallest node size of Btrfs.
    const MOST: u64 = 4096;
    size <= MOST
        && strategy.kind(file) == Some(Kind::Btrfs)
        && matches!(fiemap::first_extent(file), Ok(Some(extent)) if extent.flags.contains(ExtentFlags::DATA_INLINE))
}

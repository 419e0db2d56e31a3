//! The one way down the ladder, for everything that copies a file: clone it, or else copy its data.

use super::data::{self, hash_of};
use super::engine::Engine;
use super::strategy::{CloneError, Reason, Strategy};
use super::{is_fatal, reserved};
use crate::extents::extent::ExtentFlags;
use crate::fs::filesystem::Kind;
use crate::fs::sparse;
use crate::fs::status::Status;
use crate::monitor::{Amount, Monitor};
use crate::sys::fiemap;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// How a file is to be copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The engine; `None` leaves it to the table of `auto`. Where [`Engine::Clone`] is named nothing else is tried, where another
    /// one is named no clone is.
    pub engine: Option<Engine>,
    /// Whether BLAKE3 of the content is wanted.
    pub hashed: bool,
}

/// What a copy did, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Data shared with the source by a clone, holes not counted.
    pub cloned: u64,
    /// Data written. Also what a clone had to write since it lies beside the metadata (Btrfs).
    pub data: u64,
    /// Left as holes, or reserved and never written.
    pub holes: u64,
    /// Data read for it, by this process or by the kernel on its behalf.
    pub read: u64,
    /// BLAKE3 of the whole content, if it was asked for and the holes are not out of proportion to the data.
    pub hash: Option<[u8; 32]>,
    /// What did most of the work.
    pub engine: Engine,
    /// Why it was not cloned, if a clone was tried or is known to be refused.
    pub reason: Option<Reason>,
}

impl Copied {
    /// Nothing yet, by this engine.
    pub fn by(engine: Engine) -> Copied {
        Copied { cloned: 0, data: 0, holes: 0, read: 0, hash: None, engine, reason: None }
    }

    /// The size of the copy.
    pub fn size(&self) -> u64 {
        self.cloned + self.data + self.holes
    }
}

/// Which side of a copy failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyError {
    /// The file that is read.
    Source(Errno),
    /// The file that is written.
    Destination(Errno),
    /// A clone was asked for and nothing else, and it was refused.
    Refused(Reason),
}

/// Makes the empty file `destination` the content of `source`, which had this status.
///
/// `destination` is open for reading and writing and does not append. The monitor hears of all bytes as they come over. A
/// source that has become shorter gives a shorter copy; the caller compares its status before and after. What says
/// that it is empty and takes no room (files of procfs) is read until it ends.
///
/// # Errors
/// Those of the kernel, of the side that failed; `CANCELED` of the source when the monitor asks to stop.
pub fn content(
    source: BorrowedFd<'_>,
    status: &Status,
    destination: BorrowedFd<'_>,
    ladder: &Strategy,
    request: &Request,
    monitor: &dyn Monitor,
) -> Result<Copied, CopyError> {
    descend(source, status, destination, ladder, (request, request), monitor)
}

/// [`content`] by the table of `auto`. The hash is computed only of data that has to be copied: that passes through this
/// process anyway. A clone is not read.
pub fn content_hashing_copies(
    source: BorrowedFd<'_>,
    status: &Status,
    destination: BorrowedFd<'_>,
    ladder: &Strategy,
    monitor: &dyn Monitor,
) -> Result<Copied, CopyError> {
    let (cloned, copied) = (Request::default(), Request { hashed: true, ..Request::default() });
    descend(source, status, destination, ladder, (&cloned, &copied), monitor)
}

/// Clones by the first request, or else copies by the second.
fn descend(
    source: BorrowedFd<'_>,
    status: &Status,
    destination: BorrowedFd<'_>,
    ladder: &Strategy,
    (request, copied): (&Request, &Request),
    monitor: &dyn Monitor,
) -> Result<Copied, CopyError> {
    let mut reason = None;
    if status.size > 0 && matches!(request.engine, None | Some(Engine::Clone)) {
        match clone(source, status, destination, ladder, request, monitor)? {
            Ok(copied) => return Ok(copied),
            Err(refused) if request.engine.is_some() => return Err(CopyError::Refused(refused)),
            Err(refused) => reason = Some(refused),
        }
    }
    let copied = data::data(source, status, destination, ladder, copied, monitor)?;
    Ok(Copied { reason, ..copied })
}

/// The first step. What is refused has left nothing in the destination.
fn clone(
    source: BorrowedFd<'_>,
    status: &Status,
    destination: BorrowedFd<'_>,
    ladder: &Strategy,
    request: &Request,
    monitor: &dyn Monitor,
) -> Result<Result<Copied, Reason>, CopyError> {
    match ladder.clone(source, status.dev, destination) {
        Ok(()) => {}
        Err(CloneError::Copy(reason)) => return Ok(Err(reason)),
        Err(CloneError::Failed(errno)) if is_fatal(errno) || request.engine.is_some() => {
            return Err(CopyError::Destination(errno));
        }
        // Only of this file, it seems: the copy that follows meets it too, and names its side, or succeeds.
        Err(CloneError::Failed(_)) => {
            rustix::fs::ftruncate(destination, 0).map_err(CopyError::Destination)?;
            return Ok(Err(Reason::Failed));
        }
    }
    let size = status.size;
    let holes = sparse::holes(source, size).map_err(CopyError::Source)?;
    let mut copied = Copied { holes, ..Copied::by(Engine::Clone) };
    match is_inline(destination, size, ladder) {
        true => copied.data = size - holes,
        false => copied.cloned = size - holes,
    }
    if holes > 0 {
        // XFS shares only what was written.
        reserved::keep(source, status, size - holes, destination)?;
    }
    if request.hashed {
        let hashed = hash_of(destination, size, monitor)?;
        copied.hash = hashed.hash;
        copied.read = hashed.read;
    }
    monitor.advance(Amount { files: 0, bytes: size });
    Ok(Ok(copied))
}

/// Whether Btrfs keeps a cloned file beside its metadata, where nothing is shared. No other filesystem that clones does.
fn is_inline(file: BorrowedFd<'_>, size: u64, ladder: &Strategy) -> bool {
    /// The most that Btrfs keeps so: a block of its smallest node size.
    const MOST: u64 = 4096;
    size <= MOST
        && ladder.kind(file) == Some(Kind::Btrfs)
        && matches!(fiemap::first_extent(file), Ok(Some(extent)) if extent.flags.contains(ExtentFlags::DATA_INLINE))
}

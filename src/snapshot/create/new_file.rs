//! A new file of the snapshot, filled from an open source: cloned, or copied with its holes.

use super::added_entry::AddedEntry;
use super::failure::{Attempt, Failure};
use super::large_file;
use super::source_entry::SourceEntry;
use super::source_file::SourceFile;
use super::staged::Staged;
use super::stats::Stats;
use super::target::Target;
use crate::content::copy::{self, CloneError, Copied, CopyError, Engine, FileCopy, Reason, Request};
use crate::content::delta;
use crate::extents::extent::ExtentFlags;
use crate::fs::filesystem::Kind;
use crate::fs::metadata::Refused;
use crate::fs::sparse;
use crate::fs::status::Status;
use crate::monitor::{Amount, Change};
use crate::snapshot::manifest::{Body, Entry, FileBody, Stored};
use crate::sys::fiemap;
use crate::util::mutex::lock;
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};

/// Creates the file and clones the source into it.
///
/// # Errors
/// The reason why the content must be copied; the file is removed then. Or an error that every further file would meet.
pub(super) fn clone(target: &Target<'_>, found: &SourceEntry<'_>, source: &SourceFile) -> Attempt<AddedEntry, Reason> {
    if source.status.size > 0
        && let Some(reason) = target.staged.refusal(source.status.dev)
    {
        return Err(Failure::Entry(reason));
    }
    let refused = match try_clone(target, found, source) {
        Ok((file, refused)) => {
            let (body, cost) = cloned_body(target, &file, found, source);
            let entry = Entry { name: found.name.to_vec(), meta: source.meta(refused), body: Body::File(body) };
            return Ok(AddedEntry { entry, cost });
        }
        // On a filesystem that does not distinguish case, another entry has the name: that entry stays.
        Err(CloneError::Failed(Errno::EXIST)) => return Err(Failure::Entry(Reason::Failed)),
        Err(refused) => refused,
    };
    target.withdraw(found.name)?;
    match refused {
        CloneError::Copy(reason) => Err(Failure::Entry(reason)),
        CloneError::Failed(errno) if copy::is_fatal(errno) => Err(Failure::Run(target.cannot_make(found.name, errno))),
        // The error seems to concern only this file. The copy that follows meets it too and reports it, or succeeds.
        CloneError::Failed(_) => Err(Failure::Entry(Reason::Failed)),
    }
}

fn try_clone(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    source: &SourceFile,
) -> Result<(OwnedFd, Refused), CloneError> {
    let SourceFile { fd, status, .. } = source;
    let attributes = source.attributes(target.staged);
    let file = target.create(found, &attributes).map_err(CloneError::Failed)?;
    if status.size > 0 {
        target.staged.strategy.clone(fd, status.dev, &file)?;
    }
    let refused = target.staged.creator.finish(&file, status.mode, &attributes).map_err(CloneError::Failed)?;
    Ok((file, refused))
}

/// The record of a cloned file, and its share in the counts.
fn cloned_body(target: &Target<'_>, file: &OwnedFd, found: &SourceEntry<'_>, source: &SourceFile) -> (FileBody, Stats) {
    let old = found.old.as_ref().and_then(Entry::file).filter(|_| found.change.is_none());
    let Status { size, allocated, .. } = source.status;
    let holes = match old {
        Some(old) => old.holes,
        None if allocated < size => sparse::holes(&source.fd, size).unwrap_or(0),
        None => 0,
    };
    let stored = match old.map(|old| old.stored) {
        Some(stored @ (Stored::Inline | Stored::Cloned)) => stored,
        _ if is_inline(file, size, target.staged) => Stored::Inline,
        _ => Stored::Cloned,
    };
    let body = FileBody { size, holes, hash: old.and_then(|old| old.hash), stored, changed: false };
    let mut cost = Stats::of_clone(&body);
    if matches!(found.change, Some(Change::Content | Change::Metadata)) {
        cost.range_shared_bytes = cost.cloned_bytes;
    }
    target.context.monitor.advance(Amount { files: 0, bytes: size });
    (body, cost)
}

/// Copies the content and keeps its holes.
pub(super) fn copy(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    source: &SourceFile,
    reason: Reason,
) -> Result<AddedEntry, CopyError> {
    let attributes = source.attributes(target.staged);
    let file = target.create(found, &attributes).map_err(CopyError::Destination)?;
    let copied = copy_content(target, source, &file)?;
    complete_copy(target.staged, found, source, &file, &copied, reason)
}

/// Copies the content of a file that is new here, and keeps its hashes if it is large.
fn copy_content(target: &Target<'_>, source: &SourceFile, file: &OwnedFd) -> Result<Copied, CopyError> {
    let size = source.status.size;
    let hashed = source.is_hashed(target.context);
    if size < large_file::LEAST || !hashed || !target.staged.filesystem.reflink {
        let request = Request { engine: None, hashed };
        let copy = FileCopy {
            source: source.fd.as_fd(),
            status: &source.status,
            destination: file.as_fd(),
            strategy: &target.staged.strategy,
            monitor: target.context.monitor,
        };
        return copy::data(&copy, &request);
    }
    let _alone = lock(&target.staged.large);
    let updated = large_file::with_list(target.context, target.staged, (size, hashed), |list, options| {
        delta::update(source.fd.as_fd(), size, None, file.as_fd(), list, options)
    })?;
    let delta::Updated { data, holes, read, hash, .. } = updated;
    Ok(Copied { data, holes, read, hash, ..Copied::by(Engine::Buffered) })
}

/// Completes a file after its content was copied.
pub(super) fn complete_copy(
    staged: &Staged,
    found: &SourceEntry<'_>,
    source: &SourceFile,
    file: &OwnedFd,
    copied: &Copied,
    reason: Reason,
) -> Result<AddedEntry, CopyError> {
    let status = &source.status;
    let attributes = source.attributes(staged);
    let refused = staged.creator.finish(file, status.mode, &attributes).map_err(CopyError::Destination)?;
    let mut cost = Stats {
        bytes: copied.data + copied.holes,
        copied_bytes: copied.data,
        read_bytes: copied.read,
        hole_bytes: copied.holes,
        ..Stats::default()
    };
    if copied.data > 0 {
        cost.reasons.insert(reason, copied.data);
    }
    let meta = source.meta(refused);
    let body = FileBody {
        size: copied.data + copied.holes,
        holes: copied.holes,
        hash: copied.hash,
        stored: Stored::Copied,
        changed: false,
    };
    Ok(AddedEntry { entry: Entry { name: found.name.to_vec(), meta, body: Body::File(body) }, cost })
}

/// Whether Btrfs keeps a cloned file's data beside its metadata. No other filesystem that clones does so.
pub(super) fn is_inline(file: &OwnedFd, size: u64, staged: &Staged) -> bool {
    staged.filesystem.kind == Kind::Btrfs
        && (1..=staged.filesystem.block_size).contains(&size)
        && matches!(fiemap::first_extent(file), Ok(Some(extent)) if extent.flags.contains(ExtentFlags::DATA_INLINE))
}

//! Changed files share every equal block with the last snapshot's version. `delta` compares the blocks; this file
//! decides which files are compared, and makes their records.
//!
//! A source on the snapshot's own filesystem is cloned. The clone holds one moment, and then shares the equal blocks of
//! the last version. Where the staging tree began as a snapshot of the last one, only the changed ranges are cloned.
//! For a source on another filesystem, the last version is cloned, and the blocks that differ are written into that
//! clone.

use super::added_entry::{AddedEntry, Try};
use super::context::Context;
use super::large_file;
use super::reused_file;
use super::source_entry::SourceEntry;
use super::source_file::SourceFile;
use super::staged::Staged;
use super::stats::Stats;
use super::target::Target;
use crate::content::copy::{self, CopyError, Reason};
use crate::content::delta::{self, Base, List};
use crate::error::{Error, Result};
use crate::extents::layout;
use crate::extents::ranges::Bytes;
use crate::fs::filesystem::Kind;
use crate::fs::openat;
use crate::fs::sparse;
use crate::fs::status::{Status, Time};
use crate::fs::timestamp::{Clock, may_have_changed_since};
use crate::monitor::{Amount, Change};
use crate::snapshot::manifest::{Body, Entry, FileBody, Stored};
use crate::util::mutex::lock;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};

/// On the snapshot's own filesystem, a changed file below this size, in bytes, is only cloned. Comparing it takes a
/// second cold inode and a second cold read, which make an incremental snapshot of many small files slow. Most programs
/// write small files anew in any case, so there is little to share.
const LEAST_CLONED: u64 = 1 << 20;
/// From another filesystem, a changed file of fewer blocks is written whole. That costs one write; comparing it costs
/// an open, a clone and a read.
const LEAST_BLOCKS: u64 = 4;

/// The last snapshot's version of a file.
struct LastVersion {
    fd: OwnedFd,
    status: Status,
    /// Its hash, if the file is the one that the manifest describes.
    hash: Option<[u8; 32]>,
}

impl LastVersion {
    /// The list of its hashes, if the new version is hashed.
    fn list(&self, staged: &Staged, hashed: bool) -> Option<List> {
        let hash = self.hash.filter(|_| hashed)?;
        staged.blocks.list(self.status.size, &hash)
    }
}

/// The content that a file got.
struct Content {
    data: u64,
    holes: u64,
    written: u64,
    read: u64,
    hash: Option<[u8; 32]>,
}

/// Adds a changed file by comparing it with its last version. The last try keeps its clone even if the source changed
/// at about the same time. That clone also holds one moment, and the recorded status is an older one, so the next run
/// looks at the file again.
pub(super) fn add(target: &Target<'_>, found: &SourceEntry<'_>, source: &SourceFile, is_last_try: bool) -> Result<Try> {
    let is_same = target.context.is_same_filesystem(source.status.dev, target.directory.fd.as_fd(), target.staged);
    if !is_compared(target.context, target.staged, found, is_same) {
        return Ok(Try::Nothing);
    }
    let Some(last) = last_version(target, found) else { return Ok(Try::Nothing) };
    let _alone = (source.status.size >= large_file::LEAST).then(|| lock(&target.staged.large));
    let made = if is_same {
        clone_and_share(target, found, source, &last, is_last_try)
    } else {
        update(target, found, source, &last)
    };
    match made {
        Ok(Try::Changed) => {
            target.withdraw(found.name)?;
            Ok(Try::Changed)
        }
        Ok(done) => Ok(done),
        Err(CopyError::Source(Errno::CANCELED)) => Err(Error::interrupted()),
        Err(CopyError::Destination(errno)) if copy::is_fatal(errno) => Err(target.cannot_make(found.name, errno)),
        // Another entry has the name and keeps it.
        Err(CopyError::Destination(Errno::EXIST)) => Ok(Try::Nothing),
        // The plain way that follows meets the same error and reports it, or succeeds.
        Err(_) => {
            target.withdraw(found.name)?;
            Ok(Try::Nothing)
        }
    }
}

/// Whether a file will probably be compared with its last version. Decided before anything is opened.
pub(super) fn is_compared(
    context: &Context<'_>,
    staged: &Staged,
    found: &SourceEntry<'_>,
    is_same_filesystem: bool,
) -> bool {
    let least = if is_same_filesystem { LEAST_CLONED } else { LEAST_BLOCKS * staged.filesystem.block_size };
    matches!(found.change, Some(Change::Content | Change::Metadata))
        && found.status.size >= least
        && found.old.as_ref().and_then(Entry::file).is_some_and(|old| old.size >= least)
        && staged.filesystem.reflink
        && context.previous.is_some()
}

/// Opens the last snapshot's version.
fn last_version(target: &Target<'_>, found: &SourceEntry<'_>) -> Option<LastVersion> {
    let old = found.old.as_ref()?;
    let fd = openat::open_regular(target.previous_directory()?, found.name).ok()?;
    let status = Status::of(&fd).ok()?;
    let file = old.file().filter(|_| status.file_type() == FileType::RegularFile)?;
    let is_meant = status.size == file.size && status.mtime == old.meta.mtime && !file.changed;
    Some(LastVersion { fd, status, hash: file.hash.filter(|_| is_meant) })
}

/// For a source on the same filesystem: clones the source, then shares the equal blocks of the last version.
fn clone_and_share(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    source: &SourceFile,
    last: &LastVersion,
    is_last_try: bool,
) -> std::result::Result<Try, CopyError> {
    let (file, differing) = match kept_clone(target, found, source, last) {
        Some(kept) => kept,
        None => (whole_clone(target, found, source, (&source.fd, source.status.dev))?, None),
    };
    if !is_last_try && !source.is_untouched() {
        return Ok(Try::Changed);
    }
    let size = Status::of(&file).map_err(CopyError::Destination)?.size;
    let hashed = source.is_hashed(target.context);
    let is_same = last.status.size == size
        && (last.hash.is_some() || !hashed)
        && match &differing {
            Some(differing) => differing.is_empty(),
            None => layout::has_same_extents(file.as_fd(), last.fd.as_fd()).unwrap_or(false),
        };
    let content = if is_same {
        let holes = sparse::holes(&file, size).map_err(CopyError::Source)?;
        target.context.monitor.advance(Amount { files: 0, bytes: size });
        let hash = last.hash.filter(|_| hashed);
        large_file::carry_list_of(target.staged, size, hash.as_ref());
        Content { data: size - holes, holes, written: 0, read: 0, hash }
    } else {
        let list = last.list(target.staged, hashed);
        let base = Base { file: last.fd.as_fd(), size: last.status.size, list: list.as_ref() };
        let freed_whole = target.staged.filesystem.kind == Kind::Btrfs;
        let extents = delta::Extents { freed_whole, differing: differing.as_deref() };
        let shared = large_file::with_list(target.context, target.staged, (size, hashed), |list, options| {
            delta::share(file.as_fd(), size, &base, extents, list, options)
        })?;
        let delta::Shared { data, holes, written, read, hash, .. } = shared;
        Content { data, holes, written, read, hash }
    };
    finish(target.staged, found, source, &file, &content, Reason::Pinned).map(Try::Frozen)
}

/// The last version of the staging tree, with the content of the source: only the ranges with other extents are cloned.
/// The ranges in which it may differ from the last version, if they are known, come with it. `None` if that is not
/// possible, or if the source may have changed meanwhile.
fn kept_clone(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    source: &SourceFile,
    last: &LastVersion,
) -> Option<(OwnedFd, Option<Vec<Bytes>>)> {
    // A change from now on must show in the times of the source.
    if source.recheck || may_have_changed_since(source.status.ctime, Time::now(), Clock::Local) {
        return None;
    }
    let attributes = source.attributes(target.staged);
    let file = reused_file::with_content(target.staged, target.above, found, &attributes, &last.status).ok()??;
    let differing = delta::follow(source.fd.as_fd(), file.as_fd()).ok()?;
    source.is_untouched().then_some((file, differing))
}

/// A file of the staging tree, and the content of an open file on the device `dev` cloned into it.
fn whole_clone(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    source: &SourceFile,
    (content, dev): (&OwnedFd, u64),
) -> std::result::Result<OwnedFd, CopyError> {
    let file = target.create(found, &source.attributes(target.staged)).map_err(CopyError::Destination)?;
    let cloned = target.staged.strategy.clone(content, dev, &file);
    cloned.map_err(|_| CopyError::Destination(Errno::OPNOTSUPP)).map(|()| file)
}

/// For a source on another filesystem: clones the last version, then writes the blocks that differ.
fn update(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    source: &SourceFile,
    last: &LastVersion,
) -> std::result::Result<Try, CopyError> {
    let size = source.status.size;
    let file = with_last_content(target, found, source, last)?;
    let hashed = source.is_hashed(target.context);
    let list = last.list(target.staged, hashed);
    let base = Base { file: last.fd.as_fd(), size: last.status.size, list: list.as_ref() };
    let updated = large_file::with_list(target.context, target.staged, (size, hashed), |list, options| {
        delta::update(source.fd.as_fd(), size, Some(&base), file.as_fd(), list, options)
    })?;
    let delta::Updated { data, holes, written, read, base_read, hash, .. } = updated;
    let content = Content { data, holes, written, read: read + base_read, hash };
    let reason = if target.staged.strategy.known(source.status.dev).is_some_and(|known| known.is_ok()) {
        Reason::Failed
    } else {
        Reason::OtherFilesystem
    };
    finish(target.staged, found, source, &file, &content, reason).map(Try::Added)
}

/// A file of the staging tree with the content of the last version.
fn with_last_content(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    source: &SourceFile,
    last: &LastVersion,
) -> std::result::Result<OwnedFd, CopyError> {
    let attributes = source.attributes(target.staged);
    let reused = reused_file::with_content(target.staged, target.above, found, &attributes, &last.status);
    match reused.map_err(CopyError::Destination)? {
        Some(file) => Ok(file),
        None => whole_clone(target, found, source, (&last.fd, last.status.dev)),
    }
}

/// Gives the file its attributes, and makes its record.
fn finish(
    staged: &Staged,
    found: &SourceEntry<'_>,
    source: &SourceFile,
    file: &OwnedFd,
    content: &Content,
    reason: Reason,
) -> std::result::Result<AddedEntry, CopyError> {
    let status = &source.status;
    let attributes = source.attributes(staged);
    let refused = staged.creator.finish(file, status.mode, &attributes).map_err(CopyError::Destination)?;
    let meta = source.meta(refused);
    let Content { data, holes, written, read, hash } = *content;
    let cloned = data.saturating_sub(written);
    let mut cost = Stats {
        bytes: data + holes,
        cloned_bytes: cloned,
        range_shared_bytes: cloned,
        copied_bytes: written,
        read_bytes: read,
        hole_bytes: holes,
        ..Stats::default()
    };
    if written > 0 {
        cost.reasons.insert(reason, written);
    }
    let stored = if written > 0 && cloned == 0 { Stored::Copied } else { Stored::Cloned };
    let body = FileBody { size: data + holes, holes, hash, stored, changed: false };
    Ok(AddedEntry { entry: Entry { name: found.name.to_vec(), meta, body: Body::File(body) }, cost })
}

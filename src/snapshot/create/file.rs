//! Regular files: cloned from the source if possible, else from the last snapshot, else copied.
//!
//! Most files take the fast path. It has three steps over a group: open and look at the sources (device waits, so many
//! threads at once); create and clone (few threads at once); check that nothing was written meanwhile, and hash. All
//! other files take the thorough path, one file at a time, with its retries.
//!
//! An unchanged file on the snapshot's own filesystem is cloned from the source, not from the last snapshot. The
//! source's inode has just been read, so the last snapshot's inode need not be. The new snapshot also shares extents
//! with the living file, so pruning older snapshots frees space even after a defragmentation. The status of the open
//! file, before and after, shows that the content is the same.

use super::added_entry::{AddedEntry, Try, unread_xattrs};
use super::changed_file;
use super::failure::{Failure, NAME_TAKEN, or_none};
use super::file_hash;
use super::hard_link;
use super::new_file;
use super::recheck;
use super::renamed_file;
use super::resumed_file;
use super::source_entry::SourceEntry;
use super::source_file::{self, SourceFile};
use super::stats::Stats;
use super::target::Target;
use super::unchanged_link;
use crate::content::copy::{self, CopyError};
use crate::error::{Error, Result};
use crate::fs::metadata;
use crate::fs::open_files::is_exhausted;
use crate::fs::openat;
use crate::fs::status::Status;
use crate::monitor::Change;
use crate::snapshot::manifest::{Body, Entry};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::AsFd;

/// How many files go through the steps together. Each thread has this many sources open.
pub(super) const GROUP: usize = 64;

/// The number of tries for a file that changes while it is read.
const ATTEMPTS: usize = 3;

/// Adds the regular files of a group. The result has an element for each entry of the group; it is `None` for other
/// types and for files that were skipped.
pub(super) fn add_group(
    target: &Target<'_>,
    group: &[SourceEntry<'_>],
    part: &mut Stats,
) -> Result<Vec<Option<Entry>>> {
    let open = |found| source_file::open_as_found(target.context, target.directory.fd.as_fd(), found).ok();
    let sources: Vec<Option<SourceFile>> =
        group.iter().map(|found| if is_fast(target, found) { open(found) } else { None }).collect();
    let cloned = clone_group(target, group, &sources)?;
    let mut entries = Vec::with_capacity(group.len());
    for ((found, source), added) in group.iter().zip(sources).zip(cloned) {
        let verified = match (source, added) {
            (Some(source), Some(added)) => verify(target, found, &source, added)?,
            _ => None,
        };
        let only_read = verified.is_some();
        let added = match verified {
            Some(added) => Some(added),
            None if found.status.file_type() == FileType::RegularFile => {
                hard_link::add(target, found, part, |part| add_thoroughly(target, found, part))?
            }
            None => None,
        };
        entries.push(added.map(|added| {
            part.add(&added.cost);
            // Early writeback of clones, most of an incremental snapshot, takes as long as it saves.
            if added.cost.copied_bytes > 0 {
                target.staged.writeback.made(1, added.cost.copied_bytes);
            }
            resumed_file::note_finished(target, &added, !only_read);
            added.entry
        }));
    }
    Ok(entries)
}

/// A file with a single name that the filesystem can clone, or an empty one.
fn is_fast(target: &Target<'_>, found: &SourceEntry<'_>) -> bool {
    let status = &found.status;
    status.file_type() == FileType::RegularFile
        && status.nlink == 1
        && !unchanged_link::is_to_link(target.context, found)
        && target.staged.filesystem.reflink
        && target.context.is_same_filesystem(status.dev, target.directory.fd.as_fd(), target.staged)
        && !changed_file::is_compared(target.context, target.staged, found, true)
}

/// Clones the open sources of a group, when it is this thread's turn to write.
fn clone_group(
    target: &Target<'_>,
    group: &[SourceEntry<'_>],
    sources: &[Option<SourceFile>],
) -> Result<Vec<Option<AddedEntry>>> {
    let mut cloned = Vec::with_capacity(group.len());
    let mut failure = None;
    if sources.iter().any(Option::is_some) {
        target.staged.write(|| {
            for (found, source) in group.iter().zip(sources) {
                // Files that could not be cloned go to the thorough path.
                let added = source.as_ref().map(|source| or_none(new_file::clone(target, found, source)));
                cloned.push(added.unwrap_or(Ok(None)).unwrap_or_else(|error| {
                    failure.get_or_insert(error);
                    None
                }));
            }
        });
    }
    if let Some(error) = failure {
        return Err(error);
    }
    cloned.resize_with(group.len(), || None);
    Ok(cloned)
}

/// Hashes a new or changed file, then checks that the source has not changed. If it has, removes the copy and returns
/// `None`.
fn verify(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    source: &SourceFile,
    mut added: AddedEntry,
) -> Result<Option<AddedEntry>> {
    let is_hashed = found.change.is_some() && target.context.hashes();
    // The content is read only if the source still has the status that was found.
    let mut is_whole = !is_hashed || source.is_untouched();
    if is_hashed && is_whole {
        match file_hash::add(target, source, &mut added) {
            Ok(()) => {}
            Err(Errno::CANCELED) => return Err(Error::interrupted()),
            Err(_) => is_whole = false,
        }
    }
    if is_whole && source.is_untouched() {
        return Ok(Some(added));
    }
    target.withdraw(found.name)?;
    Ok(None)
}

/// Adds one file in the first way that works. Such files are on other filesystems, cannot be cloned, or change
/// meanwhile.
fn add_thoroughly(target: &Target<'_>, found: &SourceEntry<'_>, part: &mut Stats) -> Result<Option<AddedEntry>> {
    if let Some(linked) = unchanged_link::add(target, found)? {
        return Ok(Some(linked));
    }
    match clone_last_version(target, found)? {
        Some(added) => Ok(Some(added)),
        None => add_from_source(target, found, part),
    }
}

/// Adds an unchanged file from another filesystem: the last snapshot has it, and the source is not opened.
fn clone_last_version(target: &Target<'_>, found: &SourceEntry<'_>) -> Result<Option<AddedEntry>> {
    let (None, Some(old)) = (found.change, &found.old) else { return Ok(None) };
    let is_same = || target.context.is_same_filesystem(found.status.dev, target.directory.fd.as_fd(), target.staged);
    if !target.staged.filesystem.reflink || is_same() {
        return Ok(None);
    }
    let (Some(old_file), Some(previous)) = (old.file(), target.previous_directory()) else { return Ok(None) };
    let Ok(fd) = openat::open_regular(previous, found.name) else { return Ok(None) };
    let Ok(status) = Status::of(&fd) else { return Ok(None) };
    if status.file_type() != FileType::RegularFile || status.size != old_file.size {
        return Ok(None);
    }
    let mut xattrs = Vec::new();
    if old.meta.has_xattrs {
        // Attributes that cannot be read here are read from the source.
        let Ok(present) = metadata::xattrs(&fd) else { return Ok(None) };
        xattrs = present;
    }
    // The content is the last snapshot's, and the status is the source's. They differ only in the access time.
    let fileattr = old.meta.fileattr();
    let status = Status { dev: status.dev, ..found.status };
    let source = SourceFile { fd, status, xattrs: old.meta.xattrs(xattrs), fileattr, recheck: false, unread: None };
    let Some(mut added) = or_none(new_file::clone(target, found, &source))? else { return Ok(None) };
    added.entry.meta.dev = found.status.dev;
    added.entry.meta.has_xattrs = old.meta.has_xattrs;
    Ok(Some(added))
}

/// Clones or copies from the source, and tries again if the source changes meanwhile.
fn add_from_source(target: &Target<'_>, found: &SourceEntry<'_>, part: &mut Stats) -> Result<Option<AddedEntry>> {
    for attempt in 1.. {
        let Some(source) = open_source(target, found, attempt == 1, part)? else { return Ok(None) };
        // The entry as found by its name may be older than the open file.
        let is_same = source.status.is_untouched_since(&found.status);
        let change = if is_same { found.change } else { found.change.or(Some(Change::Content)) };
        let old = found.old.clone();
        let now = SourceEntry { name: found.name, status: source.status, old, change, in_place: found.in_place };
        let is_last_try = attempt == ATTEMPTS;
        let mut added = match try_source(target, &now, &source, is_last_try, part)? {
            Try::Frozen(added) => return Ok(Some(added)),
            Try::Added(added) => added,
            Try::Changed => continue,
            Try::Nothing => return Ok(None),
        };
        if source.is_untouched() {
            return Ok(Some(added));
        }
        if is_last_try {
            let error = Error::failed("make a consistent copy of").at(target.path(found)).keeping_entry();
            let hint =
                format!("it changed while it was read, in all {ATTEMPTS} attempts; the last copy was kept and marked");
            target.context.problem(&error.hint(hint), part);
            if let Body::File(file) = &mut added.entry.body {
                file.changed = true;
            }
            return Ok(Some(added));
        }
        target.withdraw(found.name)?;
        part.read_bytes += added.cost.read_bytes;
    }
    Ok(None)
}

/// Opens the source in its present state. `None` if it cannot be added, which is reported unless it was deleted.
fn open_source(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    is_first_try: bool,
    part: &mut Stats,
) -> Result<Option<SourceFile>> {
    let context = target.context;
    match source_file::open_now(context, target.directory.fd.as_fd(), found.name) {
        Ok(Some(source)) => {
            if let Some(errno) = source.unread.filter(|_| is_first_try) {
                context.problem(&unread_xattrs(target.path(found), errno), part);
            }
            return Ok(Some(source));
        }
        // The file was deleted meanwhile.
        Err(Errno::NOENT) => target.directory.note_missing(found.name),
        // A link is not followed, a socket cannot be opened.
        Ok(None) | Err(Errno::LOOP | Errno::NXIO) => {
            let error = Error::failed("add").at(target.path(found));
            context.problem(&error.hint("it became something else while its directory was read; run again"), part);
        }
        Err(errno) => {
            let error = Error::io("open", target.path(found), errno);
            if is_exhausted(errno) {
                return Err(error);
            }
            context.problem(&error, part);
        }
    }
    Ok(None)
}

/// One try to add a file from its open source in the cheapest way: from a killed run, as a change of the last version,
/// or anew.
fn try_source(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    source: &SourceFile,
    is_last_try: bool,
    part: &mut Stats,
) -> Result<Try> {
    if let Some(added) = resumed_file::take_over(target, found, source, part)? {
        return Ok(Try::Added(added));
    }
    match changed_file::add(target, found, source, is_last_try)? {
        Try::Nothing => add_anew(target, found, source, is_last_try, part),
        done => Ok(done),
    }
}

/// Clones or copies an open source, without regard to an earlier version. A file that fails is skipped and reported.
fn add_anew(
    target: &Target<'_>,
    found: &SourceEntry<'_>,
    source: &SourceFile,
    is_last_try: bool,
    part: &mut Stats,
) -> Result<Try> {
    let skip = |action, errno, part| skip(target, found, action, errno, part).map(|()| Try::Nothing);
    let reason = match new_file::clone(target, found, source) {
        Ok(added) => match recheck::settle(target, found, source, added, is_last_try) {
            Err(Failure::Entry(errno)) => return skip("read", errno, part),
            Err(Failure::Run(error)) => return Err(error),
            Ok(done) => return Ok(done),
        },
        Err(Failure::Run(error)) => return Err(error),
        Err(Failure::Entry(reason)) => reason,
    };
    let failed = match renamed_file::add(target, found, source, reason) {
        Ok(added) => return Ok(Try::Added(added)),
        Err(Failure::Run(error)) => return Err(error),
        Err(Failure::Entry(failed)) => failed,
    };
    match failed {
        CopyError::Source(Errno::CANCELED) => Err(Error::interrupted()),
        CopyError::Source(errno) => skip("read", errno, part),
        CopyError::Destination(errno) if copy::is_fatal(errno) => Err(target.cannot_make(found.name, errno)),
        CopyError::Destination(errno) => skip("write to the snapshot", errno, part),
        // A copy never asks for a clone.
        CopyError::Refused(_) => skip("clone", Errno::OPNOTSUPP, part),
    }
}

/// Skips a file, reports it, and removes the incomplete copy.
fn skip(target: &Target<'_>, found: &SourceEntry<'_>, action: &str, errno: Errno, part: &mut Stats) -> Result<()> {
    if errno == Errno::CANCELED {
        return Err(Error::interrupted());
    }
    let error = Error::io(action, target.path(found), errno);
    if errno == Errno::EXIST {
        // Another file has the name and must stay.
        target.context.problem(&error.hint(NAME_TAKEN), part);
        return Ok(());
    }
    target.context.problem(&error, part);
    target.withdraw(found.name)
}

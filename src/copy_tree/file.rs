//! Regular files: opens and fills them, as `new_file` of `tree::writer` describes, and puts them in their place if the
//! source is unchanged. `ring` has its own way to fill them.
//!
//! Unlike a restore, a copy fills a file again if its source changes meanwhile, and keeps the source at hand until the
//! data is on the disk, to detect changes that leave no trace in its times.

use super::context::Context;
use super::job::{self, Job};
use super::pair::{Pair, Placed, Seen};
use super::stats::Stats;
use super::{count, outcome, pending};
use crate::content::copy::{self, Copied, CopyError, FileCopy, Reason};
use crate::error::{Advice, Error};
use crate::fs::metadata::{self, Attributes, FileAttr, Xattr};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::fs::timestamp::may_have_changed_since;
use crate::tree::walk::absolute;
use crate::tree::writer::{Attempt, Failure, Put, TempFile, Waiting};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// How often a file is copied again if it changes during the copy.
const ATTEMPTS: usize = 3;

/// An open source, with the status that it must still have at the end.
pub(super) struct Source {
    pub(super) fd: OwnedFd,
    pub(super) kept: Kept,
}

impl Source {
    /// An open source with this status. Reads the rest of its metadata.
    pub(super) fn new(context: &Context<'_>, fd: OwnedFd, status: Status) -> Source {
        let kept = kept(context, fd.as_fd(), status);
        Source { fd, kept }
    }
}

/// The metadata that is copied from a source.
pub(super) struct Kept {
    pub(super) status: Status,
    pub(super) xattrs: Vec<Xattr>,
    pub(super) fileattr: FileAttr,
    /// Why not all of its extended attributes could be read.
    pub(super) unread: Option<Errno>,
}

impl Kept {
    /// The attributes that its copy gets.
    pub(super) fn attributes(&self) -> Attributes<'_> {
        Attributes::of(&self.status, &self.xattrs).with(self.fileattr)
    }
}

/// Copies a file, again if it changes meanwhile.
pub(super) fn copy(pair: &Pair<'_>, seen: &Seen<'_>, first: Option<Source>, part: &mut Stats) -> Attempt<Placed> {
    let mut first = first;
    for attempt in 1.. {
        let source = match first.take() {
            Some(source) => source,
            None => match open(pair, seen.name)? {
                Some(source) => source,
                None => return Ok(Placed::default()),
            },
        };
        let (aside, copied) = fill(pair, seen, &source)?;
        let is_quiet = Status::of(&source.fd).is_ok_and(|now| now.is_untouched_since(&source.kept.status));
        if !is_quiet && attempt < ATTEMPTS {
            part.read_bytes += copied.read;
            continue;
        }
        let placed = put(pair, seen, &source.kept, aside, (&copied, is_quiet))?;
        count::content(&copied, part);
        let status = Status { size: copied.size(), ..source.kept.status };
        count::entry(pair.context, &status, false, part);
        if !is_quiet {
            let error = Error::failed("make a consistent copy of").at(absolute(&pair.directory.join(seen.name)));
            let hint = format!(
                "it changed while it was read, in all {ATTEMPTS} attempts; the last copy was kept; run again when \
                 nobody writes to it"
            );
            pair.context.problem(&error.hint(hint), part);
        }
        return Ok(placed);
    }
    Ok(Placed::default())
}

/// Opens a source and reads the metadata to copy. `None`: the source no longer exists.
pub(super) fn open(pair: &Pair<'_>, name: &[u8]) -> Attempt<Option<Source>> {
    let fail = |action, errno| pair.unreadable(name, action, errno);
    let fd = match openat::open_file(pair.directory.fd.as_fd(), name) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => {
            pair.directory.note_missing(name);
            return Ok(None);
        }
        Err(Errno::LOOP) => return Err(became_something_else(pair, name)),
        Err(errno) => return Err(fail("open", errno)),
    };
    let status = Status::of(&fd).map_err(|errno| fail("read the status of", errno))?;
    if status.file_type() != FileType::RegularFile {
        return Err(became_something_else(pair, name));
    }
    Ok(Some(Source::new(pair.context, fd, status)))
}

/// Flushes a source with this status before it is read, so that a later store through a mapping will change its times.
/// A clone flushes its source by itself.
pub(super) fn flush(context: &Context<'_>, fd: BorrowedFd<'_>, status: &Status) {
    // A disk that refuses to write the data may still be able to read it.
    let _ = context.flusher.flush(fd, status);
}

/// Reads the metadata of an open source.
pub(super) fn kept(context: &Context<'_>, fd: BorrowedFd<'_>, status: Status) -> Kept {
    let (xattrs, unread) = metadata::readable_xattrs(fd);
    Kept { status, xattrs, fileattr: context.fileattrs.of(fd, status.dev), unread }
}

/// The failure of an entry that changed after it was compared with its copy.
pub(super) fn changed(pair: &Pair<'_>, name: &[u8]) -> Failure {
    let error = Error::failed("copy").at(absolute(&pair.directory.join(name)));
    Failure::Meanwhile(error.hint("it changed after it was compared with its copy; run again"))
}

/// The failure of an entry that is no longer a regular file.
pub(super) fn became_something_else(pair: &Pair<'_>, name: &[u8]) -> Failure {
    let error = Error::failed("copy").at(absolute(&pair.directory.join(name)));
    Failure::Entry(error.hint("it became something else while its directory was read; run again"))
}

/// Creates the temporary file, with the current content of the source.
fn fill<'a>(pair: &Pair<'a>, seen: &Seen<'_>, source: &Source) -> Attempt<(TempFile<'a>, Copied)> {
    let context = pair.context;
    let aside = pair.slot(seen.name).make_file(seen.replaces(), &source.kept.attributes())?;
    let files = FileCopy {
        source: source.fd.as_fd(),
        status: &source.kept.status,
        destination: aside.as_fd(),
        strategy: &pair.place().dir.device.strategy,
        monitor: context.monitor,
    };
    let prepare = || flush(context, files.source, files.status);
    match copy::content_preparing_reads(&files, &context.request, prepare) {
        Ok(copied) => Ok((aside, copied)),
        Err(CopyError::Source(errno)) => Err(pair.unreadable(seen.name, "read", errno)),
        Err(CopyError::Destination(errno)) => Err(pair.wrong(seen.name, "write", errno)),
        Err(CopyError::Refused(reason)) => Err(refused(pair, seen, reason)),
    }
}

/// The failure when only a clone was requested. Ends the run if no file of the source's filesystem can be cloned.
fn refused(pair: &Pair<'_>, seen: &Seen<'_>, reason: Reason) -> Failure {
    let error = Error::failed("clone").at(absolute(&pair.directory.join(seen.name)));
    let error = error.hint(reason.to_string()).advise(Advice::AnyEngine);
    match reason {
        Reason::OtherFilesystem | Reason::NoReflink => Failure::Fatal(error),
        _ => Failure::Entry(error),
    }
}

/// Sets the metadata of a file with complete content, and gives it its name. `is_quiet`: after it was filled, its
/// source was as before.
///
/// A file that was written gets its times after a sync, when its source is examined once more. If its directory keeps
/// its temporary name until that sync, and its source is quiet, it gets them now. If the source changes from now on,
/// its inode changes later than that of the copy, and the next run compares the two.
pub(super) fn put(
    pair: &Pair<'_>,
    seen: &Seen<'_>,
    kept: &Kept,
    aside: TempFile<'_>,
    (copied, is_quiet): (&Copied, bool),
) -> Attempt<Placed> {
    let (context, place, slot) = (pair.context, pair.place(), pair.slot(seen.name));
    let must_sync = place.dir.device.must_sync(copied)
        && !(is_quiet && is_older_than_run(pair, &kept.status) && place.protects_written());
    let (attributes, is_foreign) = context.creator.within_rights(kept.attributes());
    let (finished, mut refused) = slot.finish(aside, &attributes, must_sync, place.fresh)?;
    // A file that claims to be empty may be in procfs, where its status shows no changes.
    let source = match must_sync && kept.status.size > 0 {
        true => Some(reopenable(pair, seen.name, kept.status)?),
        false => None,
    };
    let has_others = seen.status.nlink > 1;
    let seal = place.dir.seal_of(kept.fileattr);
    let mut placed = Placed { seal: seal.filter(|_| has_others), waiting: None };
    let is_late = has_others || (place.is_staged() && seal.is_some_and(FileAttr::prevents_deletion));
    if let Some(seal) = seal.filter(|_| is_late && !has_others) {
        place.seal_later(slot.name, seal);
    }
    match slot.put_file(finished, seal.filter(|_| !is_late))? {
        Put::Settled(fileattr) => refused.fileattr.add(fileattr),
        Put::Unsynced(file) => {
            if has_others {
                let status = Status::of(&file).map_err(|errno| slot.failure("read the status of", errno))?;
                let temporary = file.temporary_name().map(<[u8]>::to_vec);
                placed.waiting = Some(Waiting { inode: (status.dev, status.ino), temporary });
            }
            pending::add(context, Job::File { file, source, path: slot.path() });
        }
    }
    context.not_kept.refused(&refused, is_foreign, || pair.shown(seen.name));
    outcome::report_unread_of(context, pair.directory, seen.name, kept.unread);
    Ok(placed)
}

/// Whether a source did not change since the run began. Otherwise it may have changed after it was read, in the same
/// tick, which its times do not show.
fn is_older_than_run(pair: &Pair<'_>, status: &Status) -> bool {
    let context = pair.context;
    let clock = context.clocks.of(status.dev, &pair.directory.fd);
    !may_have_changed_since(status.ctime, context.begun, clock)
}

/// The data needed to examine a source again.
fn reopenable(pair: &Pair<'_>, name: &[u8], status: Status) -> Attempt<job::Source> {
    let known = &pair.place().source;
    let dir = match known.get() {
        Some(dir) => Arc::clone(dir),
        None => {
            let dir = rustix::io::fcntl_dupfd_cloexec(&pair.directory.fd, 0)
                .map_err(|errno| outcome::source(&pair.directory.path, "keep open", errno))?;
            Arc::clone(known.get_or_init(|| Arc::new(dir)))
        }
    };
    let clock = pair.context.clocks.of(status.dev, &pair.directory.fd);
    Ok(job::Source { dir, name: name.to_vec(), path: pair.directory.join(name), status, clock })
}

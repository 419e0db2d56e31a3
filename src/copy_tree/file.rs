//! Regular files: created under a temporary name with content and metadata, and put in their place if the source is
//! unchanged.

use super::context::Context;
use super::job::{self, Job};
use super::options::TEMPORARY;
use super::pair::{Pair, Placed, Seen};
use super::stats::Stats;
use super::{count, outcome, pending};
use crate::content::copy::{self, Copied, CopyError, Reason};
use crate::error::{Advice, Error};
use crate::fs::metadata::{self, Attributes, FileAttr, Xattr};
use crate::fs::openat;
use crate::fs::status::{Status, Time};
use crate::tree::walk::absolute;
use crate::tree::writer::{self, Attempt, Failure, TempFile, Waiting};
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
        let placed = put(pair, seen, &source.kept, aside, &copied)?;
        count::content(&copied, part);
        let status = Status { size: copied.size(), ..source.kept.status };
        count::entry(pair.context, &status, false, part);
        if !is_quiet {
            let error = Error::failed("take a quiet copy of").at(absolute(&pair.directory.join(seen.name)));
            let hint = "it changed each time it was read, and the last try was kept; run again when it is quiet";
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
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(fail("open", errno)),
    };
    let status = Status::of(&fd).map_err(|errno| fail("read the status of", errno))?;
    if status.file_type() != FileType::RegularFile {
        return Err(became_something_else(pair, name));
    }
    let kept = kept(pair.context, fd.as_fd(), status);
    Ok(Some(Source { fd, kept }))
}

/// Reads the metadata of an open source, and flushes the source, so that a later store through a mapping will change
/// its times.
pub(super) fn kept(context: &Context<'_>, fd: BorrowedFd<'_>, status: Status) -> Kept {
    // A disk that refuses to write the data may still be able to read it.
    let _ = context.flusher.flush(fd, status.dev);
    let (xattrs, unread) = metadata::readable_xattrs(fd);
    Kept { status, xattrs, fileattr: context.fileattrs.of(fd, status.dev), unread }
}

/// The failure of an entry that is no longer a regular file.
pub(super) fn became_something_else(pair: &Pair<'_>, name: &[u8]) -> Failure {
    let error = Error::failed("copy").at(absolute(&pair.directory.join(name)));
    Failure::Entry(error.hint("it became something else while its directory was read; run again"))
}

/// Creates an empty temporary file, with everything that must be set before its first byte.
pub(super) fn make<'a>(pair: &Pair<'a>, seen: &Seen<'_>, kept: &Kept) -> Attempt<TempFile<'a>> {
    let aside = TempFile::make(pair.above()?, TEMPORARY, seen.replaces())
        .map_err(|errno| pair.wrong(seen.name, "make", errno))?;
    let prepared = pair.place().dir.inherited.prepare(&pair.context.creator, &aside, &kept.attributes());
    prepared.map_err(|errno| pair.wrong(seen.name, "set the metadata of", errno))?;
    Ok(aside)
}

/// Creates the temporary file, with the current content of the source.
fn fill<'a>(pair: &Pair<'a>, seen: &Seen<'_>, source: &Source) -> Attempt<(TempFile<'a>, Copied)> {
    let context = pair.context;
    let aside = make(pair, seen, &source.kept)?;
    let strategy = &pair.place().dir.device.strategy;
    let copied = copy::content(
        source.fd.as_fd(),
        &source.kept.status,
        aside.as_fd(),
        strategy,
        &context.request,
        context.monitor,
    );
    match copied {
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

/// Sets the metadata of a file with complete content, and gives it its name. If data was written, the times are set
/// after the next sync, and so is the name if it replaces another file.
pub(super) fn put(
    pair: &Pair<'_>,
    seen: &Seen<'_>,
    kept: &Kept,
    aside: TempFile<'_>,
    copied: &Copied,
) -> Attempt<Placed> {
    let (context, place) = (pair.context, pair.place());
    let wrong = |action, errno| pair.wrong(seen.name, action, errno);
    let must_sync = place.dir.device.must_sync(copied);
    let (attributes, is_foreign) = context.creator.within_rights(kept.attributes().unsealed());
    // A directory with the set-group-id bit, or a mount with `grpid`, gives its own group to new files.
    let given = match (place.fresh, must_sync) {
        (true, false) => context.creator.finish(&aside, 0o600, &attributes),
        (true, true) => context.creator.finish_but_times(&aside, 0o600, &attributes),
        (false, false) => context.creator.apply(&aside, &attributes),
        (false, true) => context.creator.apply_but_times(&aside, &attributes),
    };
    let mut refused = given.map_err(|errno| wrong("set the metadata of", errno))?;
    let seal = place.dir.is_sealed(kept.fileattr).then_some(kept.fileattr);
    let (later, seal) = if seen.status.nlink > 1 { (seal, None) } else { (None, seal) };
    let mut placed = Placed { seal: later, waiting: None };
    if must_sync {
        placed.waiting = put_before_sync(pair, seen, kept, aside, (attributes.atime, attributes.mtime), seal)?;
    } else {
        let file = aside.put(pair.target_name(seen.name)).map_err(|errno| wrong("put in place", errno))?;
        if let Some(seal) = seal {
            refused.fileattr.add(seal.seal(file));
        }
    }
    context.not_kept.refused(&refused, is_foreign, || pair.shown(seen.name));
    outcome::report_unread_of(context, pair.directory, seen.name, kept.unread);
    Ok(placed)
}

/// Gives a file its name, unless it replaces another file, and lets the rest be done after the next sync.
fn put_before_sync(
    pair: &Pair<'_>,
    seen: &Seen<'_>,
    kept: &Kept,
    aside: TempFile<'_>,
    times: (Time, Time),
    seal: Option<FileAttr>,
) -> Attempt<Option<Waiting>> {
    let dir = &pair.place().dir;
    let wrong = |action, errno| pair.wrong(seen.name, action, errno);
    writer::set_provisional_time(&aside, times.1).map_err(|errno| wrong("set the times of", errno))?;
    // A file that claims to be empty may be in procfs, where its status shows no changes.
    let source = match kept.status.size {
        0 => None,
        _ => Some(reopenable(pair, seen.name, kept.status)?),
    };
    let file = dir
        .put_before_sync(aside, pair.target_name(seen.name), times, seal)
        .map_err(|errno| wrong("put in place", errno))?;
    let waiting = match seen.status.nlink {
        0 | 1 => None,
        _ => {
            let status = Status::of(&file).map_err(|errno| wrong("look at", errno))?;
            let temporary = file.temporary_name().map(<[u8]>::to_vec);
            Some(Waiting { inode: (status.dev, status.ino), temporary })
        }
    };
    pending::add(pair.context, Job::File { file, source, path: pair.target_path(seen.name) });
    Ok(waiting)
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

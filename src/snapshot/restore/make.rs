//! Makes one entry under a temporary name, then renames it into its place. So a reader sees the old or the new entry,
//! and a killed run leaves no half of a file under its name.

use super::context::Context;
use super::job::Job;
use super::options::TEMPORARY;
use super::origin::Origin;
use super::outcome::{Outcome, report, report_seal};
use super::place::Place;
use super::stats::Stats;
use super::{content, delete, metadata};
use crate::content::copy::{self, CopyError, Request};
use crate::error::Error;
use crate::fs::metadata::{Refused, set_times};
use crate::fs::status::Status;
use crate::monitor::Change;
use crate::snapshot::manifest::{Body, Entry, FileBody, Time};
use crate::tree::writer::{
    self, Attempt, Decision, Failure, Inode, Node, Run as _, Target as _, TempFile, Temporary, Version,
};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};

/// A new inode that does not have its name yet.
enum Made<'d> {
    File(TempFile<'d>),
    /// Its data may be in memory only. It gets these times when the data is on the disk.
    Written(TempFile<'d>, (Time, Time)),
    Node(Temporary<BorrowedFd<'d>>),
}

/// Applies the decision on an entry, and completes its outcome. `existing` is in its place.
pub(super) fn carry_out(
    context: &Context<'_>,
    place: &Place,
    entry: &Entry,
    decision: Decision,
    existing: Option<&Status>,
    origin: &mut Origin<'_>,
    outcome: &mut Outcome,
) -> Attempt<()> {
    let Some(target) = &place.dir.fd else { return Ok(()) };
    let stats = &mut outcome.stats;
    match decision {
        Decision::Leave | Decision::Keep | Decision::Blocked => return Ok(()),
        Decision::Metadata => {
            let given = match existing {
                Some(seen) => metadata::set(context, target, entry, seen, origin),
                None => Err(Errno::NOENT),
            };
            let refused = given.map_err(|errno| place.failure(context, &entry.name, "restore", errno))?;
            context.done.count(Change::Metadata);
            stats.errors += report(context, &refused, || context.shown(&place.join(&entry.name)));
            return Ok(());
        }
        Decision::Make | Decision::Replace(_) | Decision::Clear => {}
    }
    let target_fd = target.as_fd();
    let replaces = decision.replaces(existing);
    let made = make(context, place, target_fd, entry, replaces, origin, stats)?;
    let file = match made {
        Made::Written(aside, times) => {
            outcome.inode = put_before_sync(context, place, entry, (decision, existing), aside, times)?;
            outcome.is_waiting = true;
            context.waiting.made(1, outcome.stats.copied_bytes);
            return Ok(());
        }
        Made::File(aside) => Some(put(context, place, entry, (decision, existing), || aside.put(&entry.name))?),
        Made::Node(temporary) => {
            put(context, place, entry, (decision, existing), || temporary.put(&entry.name, replaces.as_ref()))?;
            None
        }
    };
    context.waiting.made(1, stats.copied_bytes);
    match file {
        Some(file) if entry.meta.nlink > 1 => {
            outcome.inode = Status::of(file).ok().map(|status| (status.dev, status.ino));
        }
        Some(file) if place.dir.is_sealed(entry.meta.fileattr()) => {
            let shown = || context.shown(&place.join(&entry.name));
            stats.errors += report_seal(context, entry.meta.fileattr().seal(&file), shown);
        }
        Some(_) => {}
        None => outcome.inode = Status::at(target, &entry.name).ok().map(|status| (status.dev, status.ino)),
    }
    Ok(())
}

/// Puts a finished inode in its place.
pub(super) fn put<T>(
    context: &Context<'_>,
    place: &Place,
    entry: &Entry,
    (decision, existing): (Decision, Option<&Status>),
    put: impl FnOnce() -> rustix::io::Result<T>,
) -> Attempt<T> {
    clear(context, place, entry, (decision, existing))?;
    let made = put().map_err(|errno| place.failure(context, &entry.name, "put in place", errno))?;
    decision.change().inspect(|change| context.done.count(*change));
    Ok(made)
}

/// Deletes the directory in an entry's place, if that was decided.
fn clear(
    context: &Context<'_>,
    place: &Place,
    entry: &Entry,
    (decision, existing): (Decision, Option<&Status>),
) -> Attempt<()> {
    let (Decision::Clear, Some(target)) = (decision, &place.dir.fd) else { return Ok(()) };
    let fail = |errno| place.failure(context, &entry.name, "put in place", errno);
    let now = place.dir.existing(&entry.name).map_err(fail)?;
    if now.is_some_and(|now| !existing.is_some_and(|seen| seen.is_same_inode(&now))) {
        return Err(fail(Errno::STALE));
    }
    delete::tree(context, target.as_fd(), &entry.name, &context.shown(&place.join(&entry.name)))
}

/// Makes the inode under a temporary name, with content and metadata.
fn make<'d>(
    context: &'d Context<'_>,
    place: &'d Place,
    target: BorrowedFd<'d>,
    entry: &Entry,
    replaces: Option<Version>,
    origin: &mut Origin<'_>,
    stats: &mut Stats,
) -> Attempt<Made<'d>> {
    let (refused, made) = match &entry.body {
        Body::File(file) => {
            let aside = TempFile::make(target, TEMPORARY, replaces)
                .map_err(|errno| place.failure(context, &entry.name, "make", errno))?;
            let (refused, times) = fill(context, place, &aside, entry, file, origin, stats)?;
            let made = match times {
                Some(times) => Made::Written(aside, times),
                None => Made::File(aside),
            };
            (refused, made)
        }
        _ => {
            let (refused, temporary) = make_node(context, place, entry, origin)?;
            (refused, Made::Node(temporary))
        }
    };
    stats.errors += report(context, &refused, || context.shown(&place.join(&entry.name)));
    Ok(made)
}

/// Puts a written file in its place, with its times, when its data is on the disk. A new file gets its name at once,
/// with a provisional time. Returns the inode.
fn put_before_sync(
    context: &Context<'_>,
    place: &Place,
    entry: &Entry,
    (decision, existing): (Decision, Option<&Status>),
    aside: TempFile<'_>,
    times: (Time, Time),
) -> Attempt<Option<(u64, u64)>> {
    let fail = |action: &str, errno| place.failure(context, &entry.name, action, errno);
    let status = Status::of(&aside).map_err(|errno| fail("look at", errno))?;
    let inode = Some((status.dev, status.ino));
    let is_sealed = place.dir.is_sealed(entry.meta.fileattr());
    if entry.meta.nlink > 1 && (decision.replaces(existing).is_some() || is_sealed) {
        // Its other names follow, and the last name seals it, so it does not wait.
        rustix::fs::fsync(&aside).map_err(|errno| fail("write", errno))?;
        set_times(&aside, times.0, times.1).map_err(|errno| fail("set the times of", errno))?;
        put(context, place, entry, (decision, existing), || aside.put(&entry.name))?;
        return Ok(inode);
    }
    writer::set_provisional_time(&aside, times.1).map_err(|errno| fail("set the times of", errno))?;
    clear(context, place, entry, (decision, existing))?;
    let seal = (is_sealed && entry.meta.nlink < 2).then(|| entry.meta.fileattr());
    let file = place.dir.put_before_sync(aside, &entry.name, times, seal);
    let file = file.map_err(|errno| fail("put in place", errno))?;
    let change = match file.temporary_name() {
        Some(_) => decision.change(),
        None => {
            decision.change().inspect(|change| context.done.count(*change));
            None
        }
    };
    context.after_sync(Job::File { file, change, path: place.child(&entry.name) }).map_err(Failure::Fatal)?;
    Ok(inode)
}

/// Sets the content and the metadata of an empty file. If data was written, the times are returned instead of set: they
/// are set when the data is on the disk.
fn fill(
    context: &Context<'_>,
    place: &Place,
    file: &TempFile<'_>,
    entry: &Entry,
    body: &FileBody,
    origin: &mut Origin<'_>,
    stats: &mut Stats,
) -> Attempt<(Refused, Option<(Time, Time)>)> {
    let fail = |action: &str, errno| place.failure(context, &entry.name, action, errno);
    let xattrs = origin.recorded().map_err(|errno| fail("read from the snapshot", errno))?.xattrs.clone();
    let source = origin.file().map_err(|errno| fail("read from the snapshot", errno))?;
    let status = Status::of(source).map_err(|errno| fail("read from the snapshot", errno))?;
    if status.file_type() != FileType::RegularFile || status.size != body.size {
        let error = Error::new(crate::error::ErrorKind::Damage, "restore").at(context.shown(&place.join(&entry.name)));
        return Err(Failure::Entry(
            error.hint("the snapshot's file does not have the size in its manifest; nothing was put in place"),
        ));
    }
    let attributes = metadata::attributes(&entry.meta, status.atime, &xattrs).unsealed();
    let prepared = place.dir.inherited.prepare(&context.creator, file, &attributes);
    prepared.map_err(|errno| fail("set the metadata of", errno))?;
    let mut times = None;
    if body.size > 0 {
        let (from, strategy, monitor) = (source.as_fd(), &place.dir.device.strategy, context.monitor);
        let copied = match body.hash.is_some() || context.options.verify {
            true => copy::content_hashing_copies(from, &status, file.as_fd(), strategy, monitor),
            false => copy::content(from, &status, file.as_fd(), strategy, &Request::default(), monitor),
        };
        let copied = copied.map_err(|error| match error {
            CopyError::Source(Errno::CANCELED) => Failure::Fatal(Error::interrupted()),
            CopyError::Source(errno) => fail("read from the snapshot", errno),
            CopyError::Destination(errno) => fail("write", errno),
            CopyError::Refused(_) => fail("clone", Errno::OPNOTSUPP),
        })?;
        content::check(context, body, file.as_fd(), &copied, stats)
            .map_err(|wrong| wrong.failure(context, &context.shown(&place.join(&entry.name))))?;
        (stats.cloned_bytes, stats.copied_bytes) = (copied.cloned, copied.data);
        times = place.dir.device.must_sync(&copied).then_some((attributes.atime, attributes.mtime));
    }
    // Owner and mode are set in any case: a directory with the set-group-id bit, or a filesystem mounted with `grpid`,
    // gives its own group to new entries in it.
    let given = match times {
        Some(_) => context.creator.apply_but_times(file, &attributes),
        None => context.creator.apply(file, &attributes),
    };
    given.map(|refused| (refused, times)).map_err(|errno| fail("set the metadata of", errno))
}

fn make_node<'d>(
    context: &'d Context<'_>,
    place: &'d Place,
    entry: &Entry,
    origin: &mut Origin<'_>,
) -> Attempt<(Refused, Temporary<BorrowedFd<'d>>)> {
    let kind = FileType::from_raw_mode(entry.meta.mode);
    let node = match &entry.body {
        Body::Symlink(to) => Node::Symlink(to),
        Body::Device(major, minor) => Node::Special(kind, (*major, *minor)),
        _ => Node::Special(kind, (0, 0)),
    };
    let slot = place.slot(context, &entry.name);
    let give = |inode: &Inode, has_others| {
        let given = metadata::give(context, inode, entry, has_others, origin);
        given.map_err(|errno| slot.failure("set the metadata of", errno))
    };
    slot.make_node(&node, give).map(|(temporary, refused)| (refused, temporary))
}

//! Makes one entry and puts it in its place: regular files as `new_file` of `tree::writer` describes, everything else
//! as `node`. So a reader sees the old or the new entry, and a killed run leaves no half of a file under its name.
//!
//! Unlike a copy, a restore checks the content against the manifest before the file gets its name, may delete a
//! directory in its place, and counts each change when it is made.

use super::context::Context;
use super::job::Job;
use super::origin::Origin;
use super::outcome::{Outcome, report, report_seal};
use super::place::Place;
use super::stats::Stats;
use super::{content, delete, metadata};
use crate::content::copy::{self, CopyError, FileCopy, Request};
use crate::error::{Error, ErrorKind};
use crate::fs::data_loss::is_data_loss;
use crate::fs::metadata::Refused;
use crate::fs::status::Status;
use crate::monitor::Change;
use crate::snapshot::manifest::{Body, Entry, FileBody};
use crate::snapshot::unreadable;
use crate::tree::writer::{
    Attempt, Decision, Failure, Finished, Inode, Node, Put, Run as _, Slot, Target as _, Version,
};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::AsFd;

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
    if place.dir.fd.is_none() {
        return Ok(());
    }
    match decision {
        Decision::Leave | Decision::Keep | Decision::Blocked => return Ok(()),
        Decision::Metadata => {
            let given = match existing {
                Some(seen) => metadata::set(context, place, entry, seen, origin),
                None => Err(Errno::NOENT),
            };
            let refused = given.map_err(|errno| place.failure(context, &entry.name, "restore", errno))?;
            context.done.count(Change::Metadata);
            outcome.stats.errors += report(context, &refused, || context.shown(&place.join(&entry.name)));
            return Ok(());
        }
        Decision::Make | Decision::Replace(_) | Decision::Clear => {}
    }
    let step = (decision, existing);
    match &entry.body {
        Body::File(body) => make_file(context, place, (entry, body), step, origin, outcome)?,
        _ => make_node(context, place, entry, step, origin, outcome)?,
    }
    context.waiting.made(1, outcome.stats.copied_bytes);
    Ok(())
}

/// Makes a regular file and puts it in its place.
fn make_file(
    context: &Context<'_>,
    place: &Place,
    (entry, body): (&Entry, &FileBody),
    (decision, existing): (Decision, Option<&Status>),
    origin: &mut Origin<'_>,
    outcome: &mut Outcome,
) -> Attempt<()> {
    let slot = place.slot(context, &entry.name);
    let replaces = decision.replaces(existing);
    let (mut finished, refused) = fill(&slot, place, (entry, body), replaces, origin, &mut outcome.stats)?;
    outcome.stats.errors += report(context, &refused, || slot.shown());
    outcome.is_waiting = finished.is_unsynced();
    let has_others = entry.meta.nlink > 1;
    let seal = place.dir.seal_of(entry.meta.fileattr());
    if has_others {
        let status = Status::of(&finished).map_err(|errno| slot.failure("read the status of", errno))?;
        outcome.inode = Some((status.dev, status.ino));
        if replaces.is_some() || seal.is_some() {
            // Its other names follow, and the last name seals it, so it does not wait.
            finished = slot.sync(finished)?;
        }
    }
    clear(context, place, entry, (decision, existing))?;
    let change = decision.change();
    match slot.put_file(finished, seal.filter(|_| !has_others))? {
        Put::Settled(refused) => {
            change.inspect(|change| context.done.count(*change));
            outcome.stats.errors += report_seal(context, refused, || slot.shown());
        }
        Put::Unsynced(file) => {
            let has_name = file.temporary_name().is_none();
            change.filter(|_| has_name).inspect(|change| context.done.count(*change));
            let change = change.filter(|_| !has_name);
            let job = Job::File { file, change, path: place.child(&entry.name) };
            context.after_sync(job).map_err(Failure::Fatal)?;
        }
    }
    Ok(())
}

/// Makes a file under a temporary name, with the content and the metadata of the snapshot's.
fn fill<'d>(
    slot: &Slot<'d, '_, Context<'_>>,
    place: &Place,
    (entry, body): (&Entry, &FileBody),
    replaces: Option<Version>,
    origin: &mut Origin<'_>,
    stats: &mut Stats,
) -> Attempt<(Finished<'d>, Refused)> {
    let context = slot.run;
    let damaged = |hint| Failure::Entry(Error::new(ErrorKind::Damage, "restore").at(slot.shown()).hint(hint));
    let failed = |errno| match errno {
        Errno::LOOP => damaged("the snapshot has something else in its place; nothing was put in place"),
        errno if is_data_loss(errno) && !context.is_lost(errno) => {
            let error = unreadable::stored("read from the snapshot", slot.shown(), errno);
            Failure::Entry(error.hint("the snapshot's copy cannot be read; nothing was put in place"))
        }
        errno => slot.failure("read from the snapshot", errno),
    };
    let xattrs = origin.recorded().map_err(failed)?.xattrs.clone();
    let source = origin.file().map_err(failed)?;
    let status = Status::of(source).map_err(failed)?;
    if status.file_type() != FileType::RegularFile || status.size != body.size {
        return Err(damaged("the snapshot's file does not have the size in its manifest; nothing was put in place"));
    }
    let attributes = metadata::attributes(&entry.meta, status.atime, &xattrs);
    let file = slot.make_file(replaces, &attributes)?;
    let mut must_sync = false;
    if body.size > 0 {
        let (strategy, monitor) = (&place.dir.device.strategy, context.monitor);
        let files = FileCopy { source: source.as_fd(), status: &status, destination: file.as_fd(), strategy, monitor };
        let copied = match body.hash.is_some() || context.options.verify {
            true => copy::content_hashing_copies(&files),
            false => copy::content(&files, &Request::default()),
        };
        let copied = copied.map_err(|error| match error {
            CopyError::Source(Errno::CANCELED) => Failure::Fatal(Error::interrupted()),
            CopyError::Source(errno) => failed(errno),
            CopyError::Destination(errno) => slot.failure("write", errno),
            CopyError::Refused(_) => slot.failure("clone", Errno::OPNOTSUPP),
        })?;
        content::check(context, body, file.as_fd(), &copied, stats)
            .map_err(|wrong| wrong.failure(context, &slot.shown()))?;
        (stats.cloned_bytes, stats.copied_bytes) = (copied.cloned, copied.data);
        must_sync = place.dir.device.must_sync(&copied);
    }
    // Whether the directory was made by this run is forgotten when it is closed, so owner and mode are always set.
    slot.finish(file, &attributes, must_sync, false)
}

/// Makes a link or special node, and puts it in its place.
fn make_node(
    context: &Context<'_>,
    place: &Place,
    entry: &Entry,
    step: (Decision, Option<&Status>),
    origin: &mut Origin<'_>,
    outcome: &mut Outcome,
) -> Attempt<()> {
    let kind = FileType::from_raw_mode(entry.meta.mode);
    let node = match &entry.body {
        Body::Symlink(to) => Node::Symlink(to),
        Body::Device(major, minor) => Node::Special(kind, (*major, *minor)),
        _ => Node::Special(kind, (0, 0)),
    };
    let slot = place.slot(context, &entry.name);
    let give = |inode: &Inode, has_others| {
        let given = metadata::give(context, inode, entry, (None, has_others), origin);
        given.map_err(|errno| slot.failure("set the metadata of", errno))
    };
    let (temporary, refused) = slot.make_node(&node, give)?;
    outcome.stats.errors += report(context, &refused, || slot.shown());
    let (decision, existing) = step;
    put(context, place, entry, step, || slot.put(temporary, decision.replaces(existing).as_ref()))?;
    outcome.inode = place.dir.inode_of(&entry.name);
    Ok(())
}

/// Puts a finished inode in its place.
pub(super) fn put(
    context: &Context<'_>,
    place: &Place,
    entry: &Entry,
    (decision, existing): (Decision, Option<&Status>),
    put: impl FnOnce() -> Attempt<()>,
) -> Attempt<()> {
    clear(context, place, entry, (decision, existing))?;
    put()?;
    decision.change().inspect(|change| context.done.count(*change));
    Ok(())
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
    if now.is_some_and(|now| !existing.is_some_and(|seen| now.is_untouched_since(seen))) {
        return Err(fail(Errno::STALE));
    }
    delete::tree(context, place, target.as_fd(), &entry.name)
}

//! Makes one entry: under a temporary name, then puts it in its place, so that a reader sees the old or the new and a killed run leaves no half
//! of a file under its name.

use super::decide::{self, Decision};
use super::origin::Origin;
use super::outcome::{Attempt, Failure, Outcome, failure, report};
use super::pending::Pending;
use super::place::Place;
use super::{Context, Stats, content, delete, seal};
use crate::content::copy::{self, Copied, CopyError, Engine, Request};
use crate::error::Error;
use crate::fs::filesystem::Kind;
use crate::fs::metadata::{self, Attributes, FileAttr, Others, Xattr};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::monitor::Change;
use crate::snapshot::manifest::{Body, Entry, FileBody, Meta, Time};
use crate::tree::writer::{self, Node, TempFile, Temporary, Unsynced, Version, pin};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The beginning of temporary names. `--delete` takes those away that a killed run left.
pub(super) const TEMPORARY: &str = ".pleach-restore.";

/// What was made, and has not its name yet.
enum Made<'d> {
    File(TempFile<'d>),
    /// With data that may be in memory only, and the times that it gets when that is on the disk.
    Written(TempFile<'d>, (Time, Time)),
    Node(Temporary<BorrowedFd<'d>>),
}

/// Does what was decided about an entry, and completes its outcome. `existing` is in its place.
pub(super) fn carry_out(
    context: &Context<'_>,
    place: &Place,
    entry: &Entry,
    decision: Decision,
    existing: Option<&Status>,
    origin: &mut Origin<'_>,
    outcome: &mut Outcome,
) -> Attempt<()> {
    let Some(target) = &place.target else { return Ok(()) };
    let stats = &mut outcome.stats;
    match decision {
        Decision::Leave | Decision::Keep | Decision::Blocked => return Ok(()),
        Decision::Metadata => {
            let given = match existing {
                Some(seen) => set_metadata(context, target, entry, seen, origin),
                None => Err(Errno::NOENT),
            };
            let refused = given.map_err(|errno| failure(context, place, entry, "restore", errno))?;
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
            outcome.inode = put_after_sync(context, place, entry, (decision, existing), aside, times)?;
            outcome.is_waiting = true;
            context.writeback.made(1, outcome.stats.copied_bytes);
            return Ok(());
        }
        Made::File(aside) => Some(put(context, place, entry, (decision, existing), || aside.put(&entry.name))?),
        Made::Node(temporary) => {
            put(context, place, entry, (decision, existing), || temporary.put(&entry.name, replaces.as_ref()))?;
            None
        }
    };
    context.writeback.made(1, stats.copied_bytes);
    match file {
        Some(file) if entry.meta.nlink > 1 => {
            outcome.inode = Status::of(file).ok().map(|status| (status.dev, status.ino));
        }
        Some(file) if seal::is_wanted(place, entry) => {
            let shown = || context.shown(&place.join(&entry.name));
            stats.errors += seal::file(context, &file, entry.meta.fileattr(), shown);
        }
        Some(_) => {}
        None => outcome.inode = Status::at(target, &entry.name).ok().map(|status| (status.dev, status.ino)),
    }
    Ok(())
}

/// Has a finished inode put in its place, once the directory is gone that is to be cleared.
pub(super) fn put<T>(
    context: &Context<'_>,
    place: &Place,
    entry: &Entry,
    (decision, existing): (Decision, Option<&Status>),
    put: impl FnOnce() -> rustix::io::Result<T>,
) -> Attempt<T> {
    let fail = |errno| failure(context, place, entry, "put in place", errno);
    if let (Decision::Clear, Some(target)) = (decision, &place.target) {
        let now = decide::existing(place, &entry.name).map_err(fail)?;
        if now.is_some_and(|now| !existing.is_some_and(|seen| seen.is_same_inode(&now))) {
            return Err(fail(Errno::STALE));
        }
        delete::tree(context, target.as_fd(), &entry.name, &context.shown(&place.join(&entry.name)))?;
    }
    let made = put().map_err(fail)?;
    decision.change().inspect(|change| context.done.count(*change));
    Ok(made)
}

/// Makes the inode aside, with content and metadata.
fn make<'d>(
    context: &Context<'_>,
    place: &Place,
    target: BorrowedFd<'d>,
    entry: &Entry,
    replaces: Option<Version>,
    origin: &mut Origin<'_>,
    stats: &mut Stats,
) -> Attempt<Made<'d>> {
    let (refused, made) = match &entry.body {
        Body::File(file) => {
            let aside = TempFile::make(target, TEMPORARY, replaces)
                .map_err(|errno| failure(context, place, entry, "make", errno))?;
            let (refused, times) = fill(context, place, &aside, entry, file, origin, stats)?;
            let made = match times {
                Some(times) => Made::Written(aside, times),
                None => Made::File(aside),
            };
            (refused, made)
        }
        _ => {
            let (refused, temporary) = make_node(context, place, target, entry, origin)?;
            (refused, Made::Node(temporary))
        }
    };
    stats.errors += report(context, &refused, || context.shown(&place.join(&entry.name)));
    Ok(made)
}

/// Has a written file put in its place, with its times, when its data is on the disk. A new file has its name at once, under
/// a provisional time. The inode.
fn put_after_sync(
    context: &Context<'_>,
    place: &Place,
    entry: &Entry,
    (decision, existing): (Decision, Option<&Status>),
    aside: TempFile<'_>,
    times: (Time, Time),
) -> Attempt<Option<(u64, u64)>> {
    let fail = |action: &str, errno| failure(context, place, entry, action, errno);
    let target = place.target.as_ref().ok_or_else(|| fail("put in place", Errno::BADF))?;
    let status = Status::of(&aside).map_err(|errno| fail("look at", errno))?;
    let inode = Some((status.dev, status.ino));
    let is_sealed = seal::is_wanted(place, entry);
    if entry.meta.nlink > 1 && (decision.replaces(existing).is_some() || is_sealed) {
        // Its other names follow, and the last of them seals it: it does not wait.
        rustix::fs::fsync(&aside).map_err(|errno| fail("write", errno))?;
        metadata::set_times(&aside, times.0, times.1).map_err(|errno| fail("set the times of", errno))?;
        put(context, place, entry, (decision, existing), || aside.put(&entry.name))?;
        return Ok(inode);
    }
    writer::set_provisional_time(&aside, times.1).map_err(|errno| fail("set the times of", errno))?;
    let (file, change) = match aside.postpone(target, &entry.name) {
        Ok((file, replacing)) => {
            place.waits_for_sync();
            (Unsynced::named(file, &place.device, times).replacing(replacing), decision.change())
        }
        Err(aside) => {
            let file = put(context, place, entry, (decision, existing), || aside.put(&entry.name))?;
            (Unsynced::named(file, &place.device, times), None)
        }
    };
    let seal = (is_sealed && entry.meta.nlink < 2).then(|| entry.meta.fileattr());
    context.after_sync(Pending::File { file, seal, change, path: place.child(&entry.name) }).map_err(Failure::Fatal)?;
    Ok(inode)
}

/// Whether content was written that may still be in memory only. A clone on XFS and Btrfs is a change of metadata like the
/// times and the name, which the journal keeps in their order; the snapshot's data is on the disk.
fn is_written(place: &Place, copied: &Copied) -> bool {
    let is_journaled = matches!(place.device.kind, Some(Kind::Xfs | Kind::Btrfs));
    copied.data > 0 && !(copied.engine == Engine::Clone && is_journaled)
}

/// Gives an empty file content and metadata. The times are left out, and given back, if data was written: they come when that
/// is on the disk.
fn fill(
    context: &Context<'_>,
    place: &Place,
    file: &TempFile<'_>,
    entry: &Entry,
    body: &FileBody,
    origin: &mut Origin<'_>,
    stats: &mut Stats,
) -> Attempt<(metadata::Refused, Option<(Time, Time)>)> {
    let fail = |action: &str, errno| failure(context, place, entry, action, errno);
    let xattrs = origin.recorded().map_err(|errno| fail("read from the snapshot", errno))?.xattrs.clone();
    let source = origin.file().map_err(|errno| fail("read from the snapshot", errno))?;
    let status = Status::of(source).map_err(|errno| fail("read from the snapshot", errno))?;
    if status.file_type() != FileType::RegularFile || status.size != body.size {
        let error = Error::new(crate::error::ErrorKind::Damage, "restore").at(context.shown(&place.join(&entry.name)));
        return Err(Failure::Entry(
            error.hint("the snapshot's file does not have the size in its manifest; nothing was put in place"),
        ));
    }
    let attributes = attributes(entry, status.atime, &xattrs);
    let prepared = place.ground.prepare(&context.creator, file, &attributes);
    prepared.map_err(|errno| fail("set the metadata of", errno))?;
    let mut times = None;
    if body.size > 0 {
        let (from, ladder, monitor) = (source.as_fd(), &place.device.ladder, context.monitor);
        let copied = match body.hash.is_some() || context.options.verify {
            true => copy::content_hashing_copies(from, &status, file.as_fd(), ladder, monitor),
            false => copy::content(from, &status, file.as_fd(), ladder, &Request::default(), monitor),
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
        times = is_written(place, &copied).then_some((attributes.atime, attributes.mtime));
    }
    // Owner and mode are set in any case: a directory with the set-group-id bit, or a filesystem mounted with `grpid`,
    // gives its own group to what is made in it.
    let given = match times {
        Some(_) => context.creator.apply_but_times(file, &attributes),
        None => context.creator.apply(file, &attributes),
    };
    given.map(|refused| (refused, times)).map_err(|errno| fail("set the metadata of", errno))
}

fn make_node<'d>(
    context: &Context<'_>,
    place: &Place,
    target: BorrowedFd<'d>,
    entry: &Entry,
    origin: &mut Origin<'_>,
) -> Attempt<(metadata::Refused, Temporary<BorrowedFd<'d>>)> {
    let fail = |action: &str, errno| failure(context, place, entry, action, errno);
    let kind = FileType::from_raw_mode(entry.meta.mode);
    let node = match &entry.body {
        Body::Symlink(to) => Node::Symlink(to),
        Body::Device(major, minor) => Node::Special(kind, (*major, *minor)),
        _ => Node::Special(kind, (0, 0)),
    };
    let made = Temporary::make(target, TEMPORARY, |name| node.make(target, name));
    let (temporary, ()) = made.map_err(|errno| fail("make", errno))?;
    let node = pin(target, temporary.name(), |status| {
        // Made by us a moment ago, and no link that somebody put in its place.
        status.file_type() == kind && status.nlink == 1 && context.creator.is_owner(status)
    });
    let refused = node.and_then(|node| give_to_node(context, place, &node, entry, place.ground.inherits, origin));
    refused.map(|refused| (refused, temporary)).map_err(|errno| fail("set the metadata of", errno))
}

/// Gives the inode that was there already, and was `seen` so, the metadata of the snapshot.
fn set_metadata(
    context: &Context<'_>,
    target: &OwnedFd,
    entry: &Entry,
    seen: &Status,
    origin: &mut Origin<'_>,
) -> rustix::io::Result<metadata::Refused> {
    let place = origin.place;
    let is_same = |status: &Status| Version::of(seen).is(status) && status.nlink == seen.nlink;
    if entry.file().is_some()
        && let Ok(file) = openat::open_file(target.as_fd(), &entry.name)
    {
        if !is_same(&Status::of(&file)?) {
            return Err(Errno::STALE);
        }
        let atime = Status::of(origin.file()?)?.atime;
        let recorded = origin.recorded()?;
        if recorded.is_complete {
            // Unlisted ones are reported by `xattrs`.
            let (Others::Removed | Others::Unlisted) = metadata::remove_other_xattrs(&file, &recorded.xattrs)?;
        }
        let mut refused = context.creator.apply(&file, &attributes(entry, atime, &recorded.xattrs))?;
        if entry.meta.nlink < 2 {
            refused.fileattr.add(entry.meta.fileattr().seal(&file));
        }
        return Ok(refused);
    }
    let node = pin(target.as_fd(), &entry.name, is_same)?;
    give_to_node(context, place, &node, entry, true, origin)
}

/// Gives an inode that must not be opened the entry's metadata.
fn give_to_node(
    context: &Context<'_>,
    place: &Place,
    node: &OwnedFd,
    entry: &Entry,
    has_others: bool,
    origin: &mut Origin<'_>,
) -> rustix::io::Result<metadata::Refused> {
    let atime = Status::at(&place.source, &entry.name).map_or(entry.meta.mtime, |status| status.atime);
    let recorded = origin.recorded()?;
    if has_others && recorded.is_complete {
        // Unlisted ones are reported by `xattrs`.
        let (Others::Removed | Others::Unlisted) = metadata::remove_other_xattrs_of_node(node, &recorded.xattrs)?;
    }
    context.creator.apply_node(node, &attributes(entry, atime, &recorded.xattrs))
}

fn attributes<'a>(entry: &Entry, atime: Time, xattrs: &'a [Xattr]) -> Attributes<'a> {
    let Meta { uid, gid, mode, mtime, flags, .. } = entry.meta;
    // The project comes when the file is in its place.
    let fileattr = FileAttr { flags, project: None };
    Attributes { uid, gid, mode, atime, mtime, xattrs, fileattr }
}

//! Makes one entry: aside, then puts it in its place, so that a reader sees the old or the new and a killed run leaves no half
//! of a file under its name.

use super::decide::{self, Decision};
use super::origin::Origin;
use super::outcome::{Attempt, Failure, Outcome, blocked, count, failure, report};
use super::place::Place;
use super::{Context, Stats, delete, seal};
use crate::beneath;
use crate::copy::{self, CopyError, Request};
use crate::error::Error;
use crate::metadata::{self, Attributes, FileAttr, Xattr};
use crate::snapshot::manifest::{Body, Entry, FileBody, Meta, Time};
use crate::staging::{Aside, Node, Temporary, pin};
use crate::status::Status;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The beginning of temporary names. `--delete` takes those away that a killed run left.
pub(super) const TEMPORARY: &str = ".pleach-restore.";

/// What was made, and has not its name yet.
enum Made<'d> {
    File(Aside<'d>),
    Node(Temporary<'d>),
}

/// Restores one entry that is no further name of an inode restored before.
pub(super) fn entry(context: &Context<'_>, place: &Place, entry: &Entry) -> Attempt<Outcome> {
    let fail = |action: &str, errno| failure(context, place, entry, action, errno);
    let mut origin = Origin::new(place, entry);
    let existing = decide::existing(place, &entry.name).map_err(|errno| fail("look at", errno))?;
    let decision = decide::decide(context, place, entry, existing.as_ref(), &mut origin)
        .map_err(|errno| fail("compare with the snapshot", errno))?;
    let mut stats = count(entry);
    match decision {
        Decision::Blocked => return Err(blocked(context, place, entry)),
        Decision::Leave | Decision::Metadata if entry.file().is_some() => stats.unchanged_files = 1,
        _ => {}
    }
    let mut inode = existing.as_ref().map(|status| (status.dev, status.ino));
    if !matches!(decision, Decision::Leave | Decision::Metadata) {
        inode = None;
    }
    if !context.options.dry_run
        && let Some(target) = &place.target
    {
        match decision {
            Decision::Leave | Decision::Blocked => {}
            Decision::Metadata => {
                let given = match &existing {
                    Some(seen) => set_metadata(context, target, entry, seen, &mut origin),
                    None => Err(Errno::NOENT),
                };
                let refused = given.map_err(|errno| fail("restore", errno))?;
                stats.errors += report(context, &refused, &context.shown(&place.join(&entry.name)));
            }
            Decision::Make | Decision::Replace(_) | Decision::Clear => {
                let target_fd = target.as_fd();
                let made = make(context, place, target_fd, entry, decision.replaces(), &mut origin, &mut stats)?;
                let file = put(context, place, target_fd, entry, decision, || match made {
                    Made::File(aside) => aside.put(&entry.name).map(Some),
                    Made::Node(temporary) => temporary.put(&entry.name, decision.replaces()).map(|()| None),
                })?;
                context.ahead.made(1, stats.copied_bytes);
                match file {
                    Some(file) if entry.meta.nlink > 1 => {
                        inode = Status::of(file).ok().map(|status| (status.dev, status.ino));
                    }
                    Some(file) if seal::is_wanted(place, entry) => {
                        let shown = context.shown(&place.join(&entry.name));
                        stats.errors += seal::file(context, &file, entry.meta.fileattr(), &shown);
                    }
                    Some(_) => {}
                    None => inode = Status::at(target, &entry.name).ok().map(|status| (status.dev, status.ino)),
                }
            }
        }
    }
    Ok(Outcome { stats, change: decision.change(), inode })
}

/// Has a finished inode put in its place, once that is free.
pub(super) fn put<T>(
    context: &Context<'_>,
    place: &Place,
    target: BorrowedFd<'_>,
    entry: &Entry,
    decision: Decision,
    put: impl FnOnce() -> rustix::io::Result<T>,
) -> Attempt<T> {
    let is_free = match decision {
        Decision::Clear => delete::tree(context, target, &entry.name, &context.shown(&place.join(&entry.name))),
        _ => Ok(()),
    };
    is_free.and_then(|()| put()).map_err(|errno| failure(context, place, entry, "put in place", errno))
}

/// Makes the inode aside, with content and metadata.
fn make<'d>(
    context: &Context<'_>,
    place: &Place,
    target: BorrowedFd<'d>,
    entry: &Entry,
    replaces: bool,
    origin: &mut Origin<'_>,
    stats: &mut Stats,
) -> Attempt<Made<'d>> {
    let (refused, made) = match &entry.body {
        Body::File(file) => {
            let aside = Aside::make(target, TEMPORARY, replaces)
                .map_err(|errno| failure(context, place, entry, "make", errno))?;
            let refused = fill(context, place, &aside, entry, file, origin, stats)?;
            (refused, Made::File(aside))
        }
        _ => {
            let (refused, temporary) = make_node(context, place, target, entry, origin)?;
            (refused, Made::Node(temporary))
        }
    };
    stats.errors += report(context, &refused, &context.shown(&place.join(&entry.name)));
    Ok(made)
}

/// Gives an empty file content and metadata.
fn fill(
    context: &Context<'_>,
    place: &Place,
    file: &Aside<'_>,
    entry: &Entry,
    body: &FileBody,
    origin: &mut Origin<'_>,
    stats: &mut Stats,
) -> Attempt<metadata::Refused> {
    let fail = |action: &str, errno| failure(context, place, entry, action, errno);
    let xattrs = origin.xattrs().map_err(|errno| fail("read from the snapshot", errno))?.to_vec();
    let source = origin.file().map_err(|errno| fail("read from the snapshot", errno))?;
    let status = Status::of(source).map_err(|errno| fail("read from the snapshot", errno))?;
    if status.file_type() != FileType::RegularFile || status.size != body.size {
        let error = Error::new(crate::error::ErrorKind::Damage, "restore").at(context.shown(&place.join(&entry.name)));
        return Err(Failure::Entry(error.hint("the snapshot's file is not of the size that its manifest says")));
    }
    let attributes = attributes(entry, status.atime, &xattrs);
    let prepared = match place.ground.inherits {
        true => context.creator.prepare_inheriting(file, &attributes),
        false => context.creator.prepare(file, &attributes),
    };
    prepared.map_err(|errno| fail("set the metadata of", errno))?;
    if body.size > 0 {
        let ladder = &place.device.ladder;
        let copied = copy::content(source.as_fd(), &status, file.as_fd(), ladder, &Request::default(), context.monitor);
        let copied = copied.map_err(|error| match error {
            CopyError::Source(Errno::CANCELED) => Failure::Fatal(Error::interrupted()),
            CopyError::Source(errno) => fail("read from the snapshot", errno),
            CopyError::Destination(errno) => fail("write", errno),
            CopyError::Refused(_) => fail("clone", Errno::OPNOTSUPP),
        })?;
        (stats.cloned_bytes, stats.copied_bytes) = (copied.cloned, copied.data);
    }
    // Owner and mode are set in any case: a directory with the set-group-id bit, or a filesystem mounted with `grpid`,
    // gives its own group to what is made in it.
    context.creator.apply(file, &attributes).map_err(|errno| fail("set the metadata of", errno))
}

fn make_node<'d>(
    context: &Context<'_>,
    place: &Place,
    target: BorrowedFd<'d>,
    entry: &Entry,
    origin: &mut Origin<'_>,
) -> Attempt<(metadata::Refused, Temporary<'d>)> {
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
    let is_same = |status: &Status| status.is_same_inode(seen) && status.nlink == seen.nlink;
    if entry.file().is_some()
        && let Ok(file) = beneath::open_file(target.as_fd(), &entry.name)
    {
        if !is_same(&Status::of(&file)?) {
            return Err(Errno::STALE);
        }
        let atime = Status::of(origin.file()?)?.atime;
        let xattrs = origin.xattrs()?;
        metadata::remove_other_xattrs(&file, xattrs)?;
        let mut refused = context.creator.apply(&file, &attributes(entry, atime, xattrs))?;
        if entry.meta.nlink < 2 {
            refused.fileattr.add(entry.meta.fileattr().seal(&file));
        }
        return Ok(refused);
    }
    let node = pin(target.as_fd(), &entry.name, is_same)?;
    give_to_node(context, place, &node, entry, true, origin)
}

/// Gives an inode that is not to be opened the entry's metadata.
fn give_to_node(
    context: &Context<'_>,
    place: &Place,
    node: &OwnedFd,
    entry: &Entry,
    has_others: bool,
    origin: &mut Origin<'_>,
) -> rustix::io::Result<metadata::Refused> {
    let atime = Status::at(&place.source, &entry.name).map_or(entry.meta.mtime, |status| status.atime);
    let xattrs = origin.xattrs()?;
    if has_others {
        metadata::remove_other_xattrs_of_node(node, xattrs)?;
    }
    context.creator.apply_node(node, &attributes(entry, atime, xattrs))
}

fn attributes<'a>(entry: &Entry, atime: Time, xattrs: &'a [Xattr]) -> Attributes<'a> {
    let Meta { uid, gid, mode, mtime, flags, .. } = entry.meta;
    // The project comes when the file is in its place.
    let fileattr = FileAttr { flags, project: None };
    Attributes { uid, gid, mode, atime, mtime, xattrs, fileattr }
}

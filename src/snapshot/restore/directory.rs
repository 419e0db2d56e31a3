//! One directory of a restore. It is found or made in the target on the way in (`subdir` of `tree::writer`), and gets
//! its own metadata on the way out.
//!
//! Unlike a copy, a restore may replace a link or file by a directory, knows which directories are only on the way, and
//! deletes what the snapshot does not have before the metadata.

use super::context::Context;
use super::end::End;
use super::metadata::{attributes, rights};
use super::options::{Overwrite, TEMPORARY};
use super::place::Place;
use super::stats::Stats;
use super::{content, delete, xattrs};
use crate::error::{Error, Result};
use crate::fs::metadata::{self, FileAttr};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::monitor::{Change, Event};
use crate::snapshot::manifest::{Directory, Meta};
use crate::snapshot::recorded::{Recorded, recorded};
use crate::tree::writer::{self, Attempt, Entering, Failure, Missing, Subdir, Target as _};
use crate::util::path::split;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// A directory that has been opened, or made.
pub(super) struct Opened {
    pub(super) place: Place,
    /// Something is mounted on it.
    pub(super) is_mount: bool,
    pub(super) end: End,
    /// The line of the plan.
    pub(super) change: Option<Change>,
}

/// Opens a directory in the snapshot and, from its parent, in the target. There it is made if it is missing.
pub(super) fn open(context: &Context<'_>, above: &Place, record: &Directory, is_wanted: bool) -> Attempt<Opened> {
    // Another run may make it at the same time.
    writer::retry(open_once(context, above, record, is_wanted), |_| open_once(context, above, record, is_wanted))
}

fn open_once(context: &Context<'_>, above: &Place, record: &Directory, is_wanted: bool) -> Attempt<Opened> {
    let options = context.options;
    let name = split(&record.path).1;
    let slot = above.slot(context, name);
    let fail = |action: &str, errno| slot.failure(action, errno);
    let source = openat::open_subdir(&above.source, name)
        .map_err(|errno| fail("open in the snapshot what belongs to", errno))?;
    // If this run does not end, a later one must know that it made this directory, and not the user.
    let missing = match (options.dry_run, is_wanted) {
        (true, _) => Missing::Stays,
        (false, true) => Missing::Made,
        (false, false) => Missing::MadeWithMark,
    };
    let found = slot.find_or_make_dir(true, missing)?;
    let existing = match &found {
        Subdir::Exists(status) => Some(*status),
        Subdir::Made(_) | Subdir::Missing => None,
    };
    if existing.as_ref().is_some_and(|status| context.is_repository(status)) {
        return Err(Failure::Entry(Error::failed("restore into the repository itself, at").at(slot.shown())));
    }
    let is_there = existing.as_ref().is_some_and(|status| status.file_type() == FileType::Directory);
    let keep = options.overwrite == Overwrite::Never;
    let mut change = match &existing {
        None => Some(Change::Added),
        Some(_) if is_there => None,
        Some(_) if is_wanted && !keep => Some(Change::Type),
        Some(status) => return Err(in_the_way(&slot.shown(), status)),
    };
    let is_unfinished = is_there && !is_wanted && existing.as_ref().is_some_and(writer::is_unfinished);
    let gets_metadata = !is_there || is_unfinished || (is_wanted && !keep);
    let target = match (found, change) {
        (Subdir::Exists(status), None) => {
            let acl = || acl_of(&record.meta, &source);
            let entering = match gets_metadata && !options.dry_run {
                true => Entering::ToGive(rights(&record.meta), &acl),
                false => Entering::AsItIs,
            };
            Some(slot.open_dir(&status, &entering)?)
        }
        (Subdir::Made(made), _) => Some(made),
        (Subdir::Exists(_), Some(_)) if !options.dry_run => {
            let dir = above.dir.fd.as_ref().ok_or_else(|| slot.failure("replace", Errno::BADF))?;
            rustix::fs::unlinkat(dir, name, AtFlags::empty()).map_err(|errno| slot.failure("replace", errno))?;
            let made = above.dir.make_subdir(name, &context.creator);
            Some(made.map_err(|errno| slot.failure("make the directory", errno))?)
        }
        (Subdir::Exists(_), Some(_)) if above.has_mount_at(&context.mounts, name) => {
            return Err(slot.failure("replace", Errno::BUSY));
        }
        (Subdir::Exists(_) | Subdir::Missing, _) => None,
    };
    change.inspect(|change| context.done.count(*change));
    if let Some(dir) = target.as_ref().filter(|_| is_there && !options.dry_run) {
        clear(dir);
    }
    let is_mount = match (&above.dir.fd, &target) {
        (Some(parent), Some(dir)) => is_there && delete::is_mounted_on(parent.as_fd(), dir.as_fd()),
        _ => false,
    };
    let is_origin = existing.as_ref().is_some_and(|status| content::is_recorded_inode(status, &record.meta));
    let place = Place::new(&context.devices, above.child(name), source, target, is_origin)
        .map_err(|errno| fail("read the status of", errno))?;
    if let Some(status) = existing.filter(|_| options.dry_run && change.is_none() && gets_metadata) {
        let recorded = recorded(&record.meta, || metadata::readable_xattrs(&place.source))
            .map_err(|errno| fail("read from the snapshot", errno))?;
        change = differs(&status, &place, &record.meta, &recorded).then_some(Change::Metadata);
    }
    let delete = options.delete && is_wanted && is_there;
    let meta = gets_metadata.then(|| record.meta.clone());
    let end = End { meta, is_wanted, delete, known: None };
    Ok(Opened { place, is_mount, end, change })
}

/// Takes permissions from the target itself that it will not have in the end.
pub(super) fn narrow_top(context: &Context<'_>, place: &Place, meta: &Meta) -> Attempt<()> {
    let Some(dir) = place.dir.fd.as_ref().filter(|_| !context.options.dry_run) else { return Ok(()) };
    let acl = || acl_of(meta, &place.source);
    let narrowed = context.narrow(dir, &Entering::ToGive(rights(meta), &acl));
    narrowed.map_err(|errno| context.failure(&place.path(), "set the metadata of", errno))
}

/// The access control list that a directory of the snapshot has.
fn acl_of(meta: &Meta, source: &OwnedFd) -> Option<Vec<u8>> {
    let recorded = recorded(meta, || metadata::readable_xattrs(source)).ok()?;
    metadata::access_acl(&recorded.xattrs).map(<[u8]>::to_vec)
}

/// Removes temporary names that killed runs left in a directory. A name that cannot be removed does no harm.
pub(super) fn clear(dir: &OwnedFd) {
    let _ = writer::clear(dir.as_fd(), TEMPORARY);
}

fn in_the_way(shown: &Path, status: &Status) -> Failure {
    let hint = match status.file_type() {
        FileType::Symlink => "a symbolic link stands where a directory must be, and none is followed",
        _ => "something else stands where a directory must be",
    };
    Failure::Entry(Error::io("restore", shown, Errno::NOTDIR).hint(hint))
}

/// Ends a directory: removes entries that the snapshot does not have, and sets the directory's metadata.
///
/// # Errors
/// The error that ends the run.
pub(super) fn end(context: &Context<'_>, place: &Place, end: End, stats: &mut Stats) -> Result<()> {
    let problem = |stats: &mut Stats, error: &Error| {
        context.monitor.problem(error);
        stats.errors += 1;
    };
    if end.delete {
        match delete::extraneous(context, place, end.known.as_ref(), stats) {
            Ok(()) => {}
            Err(error) if context.monitor.is_cancelled() => return Err(error),
            // Entries that the manifest does not show are not deleted.
            Err(error) => problem(stats, &error),
        }
    }
    let Some(meta) = end.meta else { return Ok(()) };
    match give_metadata(context, place, &meta) {
        Ok(errors) => {
            for error in errors.into_iter().map(|error| error.at(context.shown(&place.path()))) {
                match end.is_wanted {
                    true => problem(stats, &error),
                    // An ordinary user cannot make another user's home, only the path to their own.
                    false => context.monitor.event(Event::ParentMetadata(&error)),
                }
            }
        }
        Err(failure) => problem(stats, &failure.skipped()?),
    }
    Ok(())
}

/// Sets the metadata of a directory, now that everything in it is done, if it differs. Returns the differences from the
/// snapshot that remain. A dry run only looks.
fn give_metadata(context: &Context<'_>, place: &Place, meta: &Meta) -> Attempt<Vec<Error>> {
    let fail = |action: &str, errno| context.failure(&place.path(), action, errno);
    let recorded = recorded(meta, || metadata::readable_xattrs(&place.source))
        .map_err(|errno| fail("read from the snapshot", errno))?;
    let Some(target) = place.dir.fd.as_ref().filter(|_| !context.options.dry_run) else {
        let is_unlisted = place.dir.fd.as_ref().is_some_and(metadata::has_unlisted_xattrs);
        return Ok(Vec::from_iter(xattrs::of_directory(context, &recorded, is_unlisted)));
    };
    if Status::of(target).is_ok_and(|status| !differs(&status, place, meta, &recorded)) {
        return Ok(Vec::from_iter(xattrs::of_directory(context, &recorded, false)));
    }
    let give = || {
        let atime = Status::of(&place.source)?.atime;
        let attributes = attributes(meta, atime, &recorded.xattrs);
        writer::give_and_seal(&context.creator, target, &attributes, recorded.is_complete)
    };
    let given = give().map_err(|errno| fail("set the metadata of", errno))?;
    let lacking = xattrs::of_directory(context, &recorded, given.has_unlisted);
    Ok(given.refused.error("restore").into_iter().chain(lacking).collect())
}

/// Whether the metadata of an existing directory differs from the snapshot's.
fn differs(status: &Status, place: &Place, meta: &Meta, recorded: &Recorded) -> bool {
    let own = (status.uid, status.gid, status.permissions());
    if own != (meta.uid, meta.gid, meta.mode & 0o7777) || !status.has_mtime(meta.mtime) {
        return true;
    }
    let Some(target) = &place.dir.fd else { return true };
    if !meta.fileattr().is_met_by(FileAttr::of(target)) {
        return true;
    }
    let (present, unread) = metadata::readable_xattrs(target);
    unread.is_some() || !recorded.is_met_by(&present)
}

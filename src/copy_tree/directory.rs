//! One directory: found or created in the destination when the walk enters it (`subdir` of `tree::writer`), and given
//! its metadata when the walk leaves it (`leaving`).
//!
//! Unlike a restore, a copy never replaces anything by a directory, and never enters a source. The walk visits the
//! entries of a directory when it enters it, so directories are closed and reopened by the walk, not here.

use super::context::Context;
use super::job::{Job, Leaving};
use super::place::{Place, Staged};
use super::plan::{self, Step};
use super::{decide, existing, leaving, outcome, pending, staging};
use crate::error::Error;
use crate::fs::filesystem::Kind;
use crate::fs::metadata::{self, Attributes, FileAttr};
use crate::fs::status::Status;
use crate::monitor::Change;
use crate::tree::walk::{Directory, absolute};
use crate::tree::writer::{Attempt, Entering, Failure, Inherited, Missing, Rights, Subdir, Target as _, Wanted};
use std::sync::Arc;

/// The directory that everything is copied to.
pub(super) fn top(context: &Context<'_>) -> Attempt<Place> {
    let open = || {
        let target = rustix::io::fcntl_dupfd_cloexec(&context.plan.top, 0)?;
        let inherited = Inherited::of(&target);
        Place::new(Vec::new(), Some(target), &context.devices, inherited, false)
    };
    open().or_else(|errno| context.failed(b"", "open", errno))
}

/// Enters a source directory. Returns its place in the destination, and the line of the plan.
pub(super) fn enter(
    context: &Context<'_>,
    step: &Step,
    directory: &Directory<()>,
    parent: Option<&Directory<Place>>,
) -> Attempt<(Place, Option<Change>)> {
    // Only happens if the destination is mounted inside itself: the copy would be copied.
    if parent.is_some() && (directory.status.dev, directory.status.ino) == context.plan.top_inode {
        let error = Error::failed("copy the destination into itself, from").at(absolute(&directory.path));
        return Err(Failure::Entry(error.hint("it is mounted there; it was skipped")));
    }
    match (parent, step.targets.get(directory.top)) {
        (Some(parent), _) => {
            let name = parent.place.name(directory.name());
            below(context, (&parent.place, context.wanted(parent)), name, directory)
        }
        (None, Some(plan::Target::Named(name))) => {
            below(context, (&top(context)?, Wanted::These(&context.plan.names)), name, directory)
        }
        (None, Some(plan::Target::Entries(rename))) => Ok((top(context)?.renaming(rename.as_deref()), None)),
        (None, _) => {
            let place = top(context)?;
            entering(context, directory, |entering| narrow(context, &place, entering))?;
            existing::clear(context, &place);
            let change = differs(context, directory, &place).then_some(Change::Metadata);
            Ok((place, change))
        }
    }
}

/// Passes on what happens to the existing copy of a source directory: whether it gets metadata, and which.
fn entering<R>(context: &Context<'_>, directory: &Directory<()>, enter: impl FnOnce(&Entering<'_>) -> R) -> R {
    if directory.scaffold || context.options.dry_run {
        return enter(&Entering::AsItIs);
    }
    let acl = || metadata::access_acl(&metadata::readable_xattrs(&directory.fd).0).map(<[u8]>::to_vec);
    enter(&Entering::ToGive(Rights::of(&directory.status), &acl))
}

/// Takes permissions from the top that it will not have in the end.
fn narrow(context: &Context<'_>, place: &Place, entering: &Entering<'_>) -> Attempt<()> {
    let Some(fd) = &place.dir.fd else { return Ok(()) };
    context.narrow(fd, entering).or_else(|errno| context.failed(&place.path, "set the metadata of", errno))
}

/// Finds or creates a directory in another.
fn below(
    context: &Context<'_>,
    (above, wanted): (&Place, Wanted<'_>),
    name: &[u8],
    directory: &Directory<()>,
) -> Attempt<(Place, Option<Change>)> {
    let slot = above.slot(context, name, wanted);
    let made = |target, fresh, inherited| {
        let place = Place::new(slot.path(), target, &context.devices, inherited, fresh);
        place.map_err(|errno| slot.failure("read the status of", errno))
    };
    let inherited = || Inherited { inherits: false, ..above.dir.inherited };
    let may_stage = staging::is_possible(context, above) && (above.fresh || slot.look()?.is_none());
    let names = may_stage.then(|| staging::list(directory));
    if names.as_ref().is_some_and(staging::pays) {
        let (dir, target) = slot.stage_dir()?;
        let (is_named, above) = (matches!(wanted, Wanted::These(_)), &above.dir);
        let may_wait =
            above.device.kind.is_some_and(Kind::has_reliable_syncfs) && above.compares_exactly(dir.temporary_name());
        let staged = Staged { dir, is_named, may_wait, above: above.waiting_mark() };
        let place = made(Some(target), true, inherited())?.staged(staged).with_names(names);
        return Ok((place, Some(Change::Added)));
    }
    let status = match slot.find_or_make_dir(!above.fresh, Missing::in_run(context.options.dry_run))? {
        Subdir::Missing => return Ok((made(None, true, Inherited::default())?, Some(Change::Added))),
        Subdir::Made(target) => {
            return Ok((made(Some(target), true, inherited())?.with_names(names), Some(Change::Added)));
        }
        Subdir::Exists(status) => status,
    };
    let place =
        entering(context, directory, |entering| existing::enter(context, &slot, &status, &directory.status, entering))?;
    let change = differs(context, directory, &place).then_some(Change::Metadata);
    Ok((place.with_names(names), change))
}

/// Creates an empty directory for a source directory that is a mount point.
pub(super) fn mount_point(context: &Context<'_>, parent: &Directory<Place>, name: &[u8]) -> Attempt<Option<Change>> {
    let place = &parent.place;
    let target_name = place.name(name);
    let slot = place.slot(context, target_name, context.wanted(parent));
    let made = match slot.find_or_make_dir(!place.fresh, Missing::in_run(context.options.dry_run))? {
        Subdir::Made(made) => made,
        Subdir::Missing => return Ok(Some(Change::Added)),
        Subdir::Exists(_) => return Ok(None),
    };
    let status = Status::at(&parent.fd, name)
        .map_err(|errno| outcome::source(&parent.join(name), "read the status of", errno))?;
    let (attributes, is_foreign) = context.creator.within_rights(Attributes::of(&status, &[]));
    let refused =
        context.creator.apply(&made, &attributes).map_err(|errno| slot.failure("set the metadata of", errno))?;
    context.not_kept.refused(&refused, is_foreign, || slot.shown());
    Ok(Some(Change::Added))
}

/// Clears the top, once, before anything is created in it.
pub(super) fn clear_top(context: &Context<'_>) -> Attempt<()> {
    existing::clear(context, &top(context)?);
    Ok(())
}

/// Sets the metadata of a directory when everything in it is done, if it differs.
pub(super) fn leave(context: &Context<'_>, directory: &Directory<Place>) -> Attempt<()> {
    let place = directory.place.current();
    let Some(target) = place.dir.fd.as_ref().filter(|_| !directory.scaffold && !context.options.dry_run) else {
        return Ok(());
    };
    let is_waiting = place.dir.is_waiting();
    if !place.fresh && !is_waiting && !differs(context, directory, place) {
        return Ok(());
    }
    let (xattrs, unread) = metadata::readable_xattrs(&directory.fd);
    if let Some(errno) = unread {
        outcome::report_unread(context, &directory.path, errno);
    }
    let wanted = context.fileattrs.of(&directory.fd, directory.status.dev);
    let (target, status, path) = (Arc::clone(target), directory.status, place.path.clone());
    let (instead, is_new, has_unread) = (place.instead_later(), place.fresh, unread.is_some());
    let leaving = Leaving { target, instead, status, xattrs, wanted, is_new, has_unread, path };
    if is_waiting {
        pending::add(context, Job::Directory(leaving));
        return Ok(());
    }
    leaving::give(context, &leaving)
}

/// Whether the metadata of an existing directory differs from that of its source.
fn differs<P>(context: &Context<'_>, directory: &Directory<P>, place: &Place) -> bool {
    let Some(target) = &place.dir.fd else { return true };
    let has_same_status =
        Status::of(target).is_ok_and(|there| decide::has_same_status(context, &directory.status, &there));
    let wanted = || context.fileattrs.of(&directory.fd, directory.status.dev);
    if !has_same_status || !wanted().is_met_by(FileAttr::of(target)) {
        return true;
    }
    match (metadata::xattrs(&directory.fd), metadata::xattrs(target)) {
        (Ok(wanted), Ok(there)) => !decide::has_same_xattrs(context, wanted, there),
        _ => true,
    }
}

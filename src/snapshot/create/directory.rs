//! A directory of the source in the snapshot: its copy in the staging tree and its record. Its entries are in
//! `entries`.

use super::added_entry::keep;
use super::context::Context;
use super::failure::{Attempt, Failure, cannot_make};
use super::inherited_entry;
use super::planned;
use super::scope::Scope;
use super::staged::Staged;
use super::staged_directory::{self, Last, StagedDirectory};
use super::stats::Stats;
use crate::error::{Error, Result};
use crate::fs::metadata::Attributes;
use crate::fs::openat;
use crate::fs::status::{Status, Time, timestamps};
use crate::monitor::Change;
use crate::snapshot::manifest::{Directory as Record, Meta};
use crate::tree::walk::Directory;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The inode number in the record of a directory that could not be read completely. It makes the directory count as
/// changed next time.
const UNKNOWN: u64 = 0;

/// The record of a directory, and how the directory differs from the last snapshot's. Only a plan needs the difference.
pub(super) type Recorded = (Record, Option<Change>);

/// Adds a directory of the walk to the snapshot. `None` if the snapshot cannot have it, which has been reported.
pub(super) fn enter(
    context: &Context<'_>,
    directory: &Directory<()>,
    parent: Option<&Directory<StagedDirectory>>,
    part: &mut Stats,
) -> Result<Option<(StagedDirectory, Recorded)>> {
    let old = based_on(context, directory)?;
    let is_untouched = old.as_ref().is_some_and(|old| is_untouched(context, directory, old));
    let scope = match &context.narrowing {
        Some(narrowing) => narrowing.scope(directory, old.as_ref(), is_untouched),
        None => Scope::Whole,
    };
    let entered = match &old {
        Some(old) if is_untouched => {
            Some((StagedDirectory::untouched(), Meta { dev: directory.status.dev, ..old.meta.clone() }))
        }
        _ => enter_changed(context, directory, parent, old.as_ref(), part)?,
    };
    let Some((place, meta)) = entered else { return Ok(None) };
    let place = place.with(scope);
    part.dirs += u64::from(!directory.scaffold);
    let change = if context.options.dry_run { planned::directory(context, directory, part)? } else { None };
    let record = Record { path: directory.path.clone(), scaffold: directory.scaffold, meta };
    Ok(Some((place, (record, change))))
}

/// Adds a directory without its entries. `None` if the snapshot cannot have it, which has been reported.
pub(super) fn keep_empty(
    context: &Context<'_>,
    parent: &Directory<StagedDirectory>,
    path: &[u8],
    status: &Status,
    part: &mut Stats,
) -> Result<Option<Recorded>> {
    let mut meta = Meta { ino: UNKNOWN, ..Meta::of(status, false) };
    if let Some(staged) = &context.staged {
        let name = last(path);
        let above = staged_directory::copy(parent, staged, context.monitor, part)?;
        if staged.based {
            // The last snapshot may have had entries in it.
            inherited_entry::take_out(above, path, context.monitor)?;
        }
        let made = rustix::fs::mkdirat(above, name, staged_directory::PRIVATE);
        match made.and_then(|()| staged.creator.apply_at(above, name, &Attributes::of(status, &[]))) {
            Ok(refused) => keep(&mut meta, refused),
            Err(errno) => {
                context.entry_failed(path, errno, "it was skipped", part)?;
                return Ok(None);
            }
        }
    }
    part.dirs += 1;
    let change = if context.options.dry_run { planned::closed_directory(context, path, status)? } else { None };
    Ok(Some((Record { path: path.to_vec(), scaffold: false, meta }, change)))
}

/// Ends a directory after all its entries: sets the metadata that they would have inherited or changed.
pub(super) fn leave(context: &Context<'_>, directory: &Directory<StagedDirectory>, part: &mut Stats) -> Result<()> {
    let (Some(staged), Some((copy, last))) = (&context.staged, directory.place.changed()) else {
        return Ok(());
    };
    if directory.path.is_empty() && directory.scaffold {
        return leave_top(copy).map_err(|errno| cannot_make(b"", errno));
    }
    let attributes = Attributes::of(&directory.status, &last.xattrs).with(staged.takes(last.fileattr));
    let Err(errno) = staged.creator.end_directory(copy, &attributes) else { return Ok(()) };
    let hint = "the snapshot's tree lacks some of its metadata, which the manifest has";
    context.part_failed(&directory.path, errno, hint, part)
}

/// The last component of a path.
pub(super) fn last(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// The directory's record in the last snapshot, if the staging tree began as a snapshot of that tree.
fn based_on(context: &Context<'_>, directory: &Directory<()>) -> Result<Option<Record>> {
    let based = context.staged.as_ref().is_some_and(|staged| staged.based);
    match context.previous.filter(|_| based) {
        Some(previous) => Ok(previous.reader.directory(&directory.path)?.map(|cursor| cursor.directory().clone())),
        None => Ok(None),
    }
}

/// Whether the directory itself needs no change in a tree that began with its `old` version. The top of the tree always
/// needs one, since it was made private when the tree began.
fn is_untouched(context: &Context<'_>, directory: &Directory<()>, old: &Record) -> bool {
    let (now, then) = (&directory.status, &old.meta);
    let is_same = (now.mtime, now.ctime, now.ino, now.mode) == (then.mtime, then.ctime, then.ino, then.mode);
    let devices = &context.devices;
    let is_settled = || devices.is_settled(then, &devices.relation(then.dev, now.dev, &directory.fd));
    is_same && is_settled() && old.scaffold == directory.scaffold && !directory.path.is_empty()
}

/// Enters a new or changed directory: makes its place in the snapshot and the metadata of its record.
fn enter_changed(
    context: &Context<'_>,
    directory: &Directory<()>,
    parent: Option<&Directory<StagedDirectory>>,
    old: Option<&Record>,
    part: &mut Stats,
) -> Result<Option<(StagedDirectory, Meta)>> {
    let errors = part.errors;
    let mut xattrs = staged_directory::read_xattrs(directory, context.monitor, part);
    let fileattr = context.fileattr(directory.fd.as_fd(), directory.status.dev, None);
    let is_incomplete = part.errors > errors;
    let mut meta = Meta::of(&directory.status, !xattrs.is_empty() || is_incomplete).with(fileattr);
    if is_incomplete {
        meta.ino = UNKNOWN;
    }
    meta.recheck = context.devices.may_change_unnoticed(&meta, None, &directory.fd);
    let last = Last { xattrs: staged_directory::take_inherited(&mut xattrs), fileattr };
    let Some(staged) = &context.staged else { return Ok(Some((StagedDirectory::untouched(), meta))) };
    let attributes = Attributes::of(&directory.status, &xattrs);
    let made = open_copy(context, directory, parent, staged, old, part).and_then(|copy| {
        let refused = match staged.based {
            true => staged_directory::reopen(staged, &copy, &attributes),
            false => staged.creator.begin_directory(&copy, &attributes),
        };
        refused.map(|refused| (copy, refused)).map_err(Failure::Entry)
    });
    let (copy, refused) = match made {
        Ok(made) => made,
        Err(Failure::Run(error)) => return Err(error),
        Err(Failure::Entry(errno)) => {
            let hint = "it was skipped with everything in it";
            context.entry_failed(&directory.path, errno, hint, part)?;
            return Ok(None);
        }
    };
    keep(&mut meta, refused);
    // A filesystem may refuse these only when they are set, after this record was written.
    meta.kept_xattrs.extend(last.xattrs.iter().map(|(n, v)| (n.clone().into(), v.clone().into())));
    Ok(Some((StagedDirectory::open(copy, last), meta)))
}

/// Opens the directory's copy for changes: a new one, or the last snapshot's if the tree began with that.
///
/// # Errors
/// The reason why it cannot be made, or an error that ends the run.
fn open_copy(
    context: &Context<'_>,
    directory: &Directory<()>,
    parent: Option<&Directory<StagedDirectory>>,
    staged: &Staged,
    old: Option<&Record>,
    part: &mut Stats,
) -> Attempt<OwnedFd, Errno> {
    let Some(parent) = parent else {
        let copy = staged.tree.try_clone();
        return copy.map_err(|cause| Error::failed("open the staging area").because(cause).into());
    };
    if old.is_some() {
        return openat::open_dir(staged.tree.as_fd(), &directory.path).map_err(Failure::Entry);
    }
    let above = staged_directory::copy(parent, staged, context.monitor, part)?;
    if staged.based {
        // The last snapshot may have another entry under this name.
        inherited_entry::take_out(above, &directory.path, context.monitor)?;
    }
    staged_directory::make(above, directory.name()).map_err(Failure::Entry)
}

/// The snapshot's own top is not a copy of a directory. Everyone who may enter the repository may read it, and its time
/// is the snapshot's.
fn leave_top(top: BorrowedFd<'_>) -> rustix::io::Result<()> {
    rustix::fs::fchmod(top, Mode::from_bits_truncate(0o755))?;
    let now = Time::now();
    rustix::fs::futimens(top, &timestamps(now, now))
}

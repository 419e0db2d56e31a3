//! One directory of a restore: found or made in the target on the way in, given its own metadata on the way out.

use super::outcome::{self, Attempt, Failure};
use super::place::Place;
use super::selection::split;
use super::{Context, Overwrite, decide, delete, origin};
use crate::beneath;
use crate::error::Error;
use crate::metadata::{self, Attributes, FileAttr};
use crate::monitor::Change;
use crate::snapshot::manifest::{Directory, Meta};
use crate::snapshot::remove::allow_all;
use crate::status::Status;
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::path::Path;

/// What a directory gets when all in it is done.
pub(super) struct End {
    /// Its metadata, unless it stays as it is.
    pub(super) meta: Option<Meta>,
    /// It was asked for, and not only made on the way: what it could not take of that is an error.
    pub(super) is_wanted: bool,
    /// What the snapshot does not have is to be removed.
    pub(super) delete: bool,
    /// Something is mounted on it that was not in the source.
    pub(super) is_mount: bool,
}

impl End {
    pub(super) fn nothing() -> End {
        End { meta: None, is_wanted: false, delete: false, is_mount: false }
    }
}

/// A directory that has been opened, or made.
pub(super) struct Opened {
    pub(super) place: Place,
    pub(super) end: End,
    /// The line of the plan.
    pub(super) change: Option<Change>,
}

/// Opens a directory in the snapshot and, from its parent, in the target, where it is made if it is missing.
pub(super) fn open(context: &Context<'_>, above: &Place, record: &Directory, is_wanted: bool) -> Attempt<Opened> {
    let options = context.options;
    let name = split(&record.path).1;
    let shown = context.shown(&record.path);
    let fail = |action: &str, errno: Errno| outcome::failure_at(&shown, action, errno);
    let source = beneath::open_subdir(&above.source, name)
        .map_err(|errno| fail("open in the snapshot what belongs to", errno))?;
    let existing = decide::existing(above, name).map_err(|errno| fail("look at", errno))?;
    if existing.as_ref().is_some_and(|status| context.is_repository(status)) {
        return Err(Failure::Entry(Error::failed("restore into the repository itself, at").at(&shown)));
    }
    let is_there = existing.as_ref().is_some_and(|status| status.file_type() == FileType::Directory);
    let keep = options.overwrite == Overwrite::Never;
    let mut change = match &existing {
        None => Some(Change::Added),
        Some(_) if is_there => None,
        Some(_) if is_wanted && !keep => Some(Change::Type),
        Some(status) => return Err(in_the_way(&shown, status)),
    };
    let gets_metadata = !is_there || (is_wanted && !keep);
    let target = match &above.target {
        Some(dir) if !options.dry_run => {
            if change == Some(Change::Type) {
                rustix::fs::unlinkat(dir, name, AtFlags::empty()).map_err(|errno| fail("replace", errno))?;
            }
            if change.is_some() {
                rustix::fs::mkdirat(dir, name, Mode::RWXU).map_err(|errno| fail("make the directory", errno))?;
            } else if gets_metadata && !context.creator.is_root() {
                // It gets its mode when all in it is done.
                let name = std::ffi::CString::new(name).map_err(|_| fail("open", Errno::INVAL))?;
                let _ = allow_all(dir.as_fd(), &name);
            }
            Some(dir)
        }
        Some(dir) if is_there => Some(dir),
        _ => None,
    };
    let target = target
        .map(|dir| beneath::open_subdir(dir, name))
        .transpose()
        .map_err(|errno| fail("open the directory", errno))?;
    if let Some(made) = target.as_ref().filter(|_| change.is_some() && above.ground.inherits) {
        // What is made in it shall inherit nothing but what the snapshot says, and that comes last.
        metadata::remove_other_xattrs(made, &[])
            .and_then(|()| context.creator.make_private(made))
            .map_err(|errno| fail("set the mode of", errno))?;
    }
    let is_mount = match (&above.target, &target) {
        (Some(parent), Some(dir)) => is_there && delete::is_mounted_on(parent.as_fd(), dir.as_fd()),
        _ => false,
    };
    let place = Place::new(context, &record.path, source, target).map_err(|errno| fail("look at", errno))?;
    if let Some(status) = existing.filter(|_| options.dry_run && change.is_none() && gets_metadata) {
        change = differs(&status, &place, &record.meta).then_some(Change::Metadata);
    }
    let delete = options.delete && is_wanted && is_there;
    let end = End { meta: gets_metadata.then(|| record.meta.clone()), is_wanted, delete, is_mount };
    Ok(Opened { place, end, change })
}

fn in_the_way(shown: &Path, status: &Status) -> Failure {
    let hint = match status.file_type() {
        FileType::Symlink => "a symbolic link stands where a directory must be, and none is followed",
        _ => "something else stands where a directory must be",
    };
    Failure::Entry(Error::io("restore", shown, Errno::NOTDIR).hint(hint))
}

/// Gives a directory its metadata, now that all in it is done, if it differs. `Some`: what it could not take.
pub(super) fn finish(context: &Context<'_>, place: &Place, meta: &Meta) -> Attempt<Option<Error>> {
    let Some(target) = &place.target else { return Ok(None) };
    if Status::of(target).is_ok_and(|status| !differs(&status, place, meta)) {
        return Ok(None);
    }
    let give = || {
        let xattrs = origin::with_kept(meta, || metadata::xattrs(&place.source))?;
        let atime = Status::of(&place.source)?.atime;
        let Meta { uid, gid, mode, mtime, .. } = *meta;
        let wanted = meta.fileattr();
        let fileattr = FileAttr { project: None, ..wanted };
        metadata::remove_other_xattrs(target, &xattrs)?;
        let attributes = Attributes { uid, gid, mode, atime, mtime, xattrs: &xattrs, fileattr };
        let mut refused = context.creator.apply(target, &attributes)?;
        refused.fileattr.add(wanted.seal(target));
        Ok(refused)
    };
    let shown = context.shown(&place.path);
    match give() {
        Ok(refused) => Ok(outcome::refused_error(&refused).map(|error| error.at(shown))),
        Err(errno) => Err(outcome::failure_at(&shown, "set the metadata of", errno)),
    }
}

/// Whether a directory that is there has other metadata than the snapshot's.
fn differs(status: &Status, place: &Place, meta: &Meta) -> bool {
    let own = (status.uid, status.gid, status.permissions(), status.mtime);
    if own != (meta.uid, meta.gid, meta.mode & 0o7777, meta.mtime) {
        return true;
    }
    let Some(target) = &place.target else { return true };
    if !meta.fileattr().is_met_by(FileAttr::of(target)) {
        return true;
    }
    let wanted = origin::with_kept(meta, || metadata::xattrs(&place.source));
    metadata::xattrs(target).ok() != wanted.ok()
}

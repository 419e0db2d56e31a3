//! Gives a new directory its own name, at once or after the sync of its files. If somebody else created a directory
//! with that name meanwhile, it is entered as if it had been there before. See `staging`.

use super::context::Context;
use super::decide;
use super::existing;
use super::job::{Publishing, SealedFile};
use super::place::Place;
use crate::fs::metadata::{self, Attributes, FileAttr};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::tree::writer::{
    self, Attempt, Entering, Failure, Inherited, Missing, Rights, Slot, StagedDir, Subdir, Synced, Target as _,
    Version, Wanted,
};
use crate::util::path::{join, split};
use rustix::fs::FileType;
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

/// Gives a directory its own name when its files are on the disk. If the name is taken by another directory, the files
/// are moved there, and none is replaced.
pub(super) fn publish(context: &Context<'_>, publishing: Publishing, synced: &Synced) {
    let Publishing { mut dir, path, source, fd, seals, instead } = publishing;
    let (above, name) = split(&path);
    let published = match dir.put_synced(name, synced) {
        Ok(()) => {
            seal(context, fd.as_fd(), &path, &seals);
            Ok(())
        }
        // The directory above compares names byte by byte, so nobody wants this one under another name.
        Err(Errno::EXIST) => found(context, above, (name, Wanted::These(&[])), &source).and_then(|place| {
            if let Some(there) = &place.dir.fd {
                let _ = instead.set(Arc::clone(there));
                merge(context, &dir, (there.as_fd(), &place), &seals)?;
            }
            Ok(())
        }),
        Err(errno) => context.failed(&path, "make the directory", errno),
    };
    published.unwrap_or_else(|failure: Failure| context.report(&failure.into_error()));
}

/// Sets the flags of files that were postponed until their directory, which has this path, has its own name.
pub(super) fn seal(context: &Context<'_>, dir: BorrowedFd<'_>, path: &[u8], seals: &[SealedFile]) {
    for SealedFile { name, seal } in seals {
        let path = join(path, name);
        match openat::open_file(dir, name) {
            Ok(file) => context.not_kept.seal(seal.seal(file), || context.shown(&path)),
            Err(errno) => context.report(&context.failure(&path, "set the flags of", errno).into_error()),
        }
    }
}

/// The directory that somebody else created meanwhile under this name, in the directory with the path `above`.
/// `source`: the status of its source.
pub(super) fn found(
    context: &Context<'_>,
    above: &[u8],
    (name, wanted): (&[u8], Wanted<'_>),
    source: &Status,
) -> Attempt<Place> {
    let lost = |errno| context.failure(above, "open the directory", errno);
    let target = context.reopener().and_then(|reopener| reopener.open_any(above)).map_err(lost)?;
    let inherited = Inherited::of(&target);
    let place = Place::new(above.to_vec(), Some(target), &context.devices, inherited, false).map_err(lost)?;
    let slot = place.slot(context, name, wanted);
    match slot.find_or_make_dir(true, Missing::Made)? {
        Subdir::Exists(status) => {
            existing::enter(context, &slot, &status, source, &Entering::ToGive(Rights::of(source), &|| None))
        }
        // It disappeared again.
        Subdir::Made(target) => {
            let inherited = Inherited { inherits: false, ..inherited };
            let made = Place::new(slot.path(), Some(target), &context.devices, inherited, true);
            made.map_err(|errno| slot.failure("read the status of", errno))
        }
        Subdir::Missing => context.failed(&slot.path(), "make the directory", Errno::NOENT),
    }
}

/// Moves the files of a staged directory to the directory that somebody else created in its place. A file that is there
/// already is kept: with equal content it gets the metadata, otherwise it is reported.
fn merge(
    context: &Context<'_>,
    staged: &StagedDir,
    (there, place): (BorrowedFd<'_>, &Place),
    seals: &[SealedFile],
) -> Attempt<()> {
    let moved = |from: BorrowedFd<'_>, name: &[u8], moved: Result<()>| {
        let path = place.join(name);
        let seals: Vec<_> = seals.iter().filter(|sealed| sealed.name == name).cloned().collect();
        let fileattr = seals.first().map(|sealed| sealed.seal);
        let attempt = || match keep(&place.slot(context, name, Wanted::These(&[])), (from, there), fileattr) {
            Ok(()) => Ok(()),
            // It has other content, so trying again is no use.
            Err(Errno::EXIST) => Err(Failure::Entry(context.failure(&path, "put in place", Errno::EXIST).into_error())),
            Err(errno) => context.failed(&path, "put in place", errno),
        };
        let result = match moved {
            Ok(()) => {
                seal(context, there, &place.path, &seals);
                Ok(())
            }
            Err(Errno::EXIST) => writer::retry(attempt(), |_| attempt()),
            Err(errno) => context.failed(&path, "put in place", errno),
        };
        if let Err(failure) = result {
            context.report(&failure.into_error());
        }
    };
    staged
        .move_files(there, moved)
        .map_err(|errno| context.failure(&place.path, "put the files in the directory", errno))
}

/// Gives an existing file the metadata of a finished one with the same name in another directory, if both have the same
/// content. `fileattr`: the flags that the finished file has not got yet.
///
/// # Errors
/// `EXIST` if it has other content, other names that would change too, or must not get these rights. `STALE` if
/// somebody else changes it.
fn keep(
    slot: &Slot<'_, '_, Context<'_>>,
    (from, there): (BorrowedFd<'_>, BorrowedFd<'_>),
    fileattr: Option<FileAttr>,
) -> Result<()> {
    let (context, name) = (slot.run, slot.name);
    let finished = openat::open_file(from, name)?;
    let (wanted, existing) = (Status::of(&finished)?, Status::at(there, name)?);
    if existing.file_type() != FileType::RegularFile || existing.size != wanted.size {
        return Err(Errno::EXIST);
    }
    let file = openat::open_file(there, name)?;
    if !writer::has_same_content(finished.as_fd(), file.as_fd(), wanted.size, context.monitor)? {
        return Err(Errno::EXIST);
    }
    let xattrs = metadata::xattrs(&finished)?;
    let fileattr = fileattr.unwrap_or_else(|| FileAttr::of(&finished));
    if decide::has_same_status(context, &wanted, &existing)
        && decide::has_same_xattrs(context, xattrs.clone(), metadata::xattrs(&file)?)
        && fileattr.is_met_by(FileAttr::of(&file))
    {
        return Ok(());
    }
    let rights = Rights::of(&wanted);
    let adds_capabilities = metadata::capabilities(&xattrs).is_some()
        && metadata::capabilities(&xattrs) != metadata::capabilities(&metadata::xattrs(&file)?);
    if existing.nlink > 1 || !slot.may_get(&rights, &existing) || adds_capabilities {
        return Err(Errno::EXIST);
    }
    let version = Version::of(&existing);
    let inode = slot.open_existing(&rights, |status| version.is(status))?;
    // Metadata that the filesystem refuses was counted for the finished file.
    let attributes = Attributes::of(&wanted, &xattrs).with(fileattr);
    inode.narrow(&context.creator, &existing, &attributes)?;
    inode.give(&context.creator, &attributes, true, true).map(|_| ())
}

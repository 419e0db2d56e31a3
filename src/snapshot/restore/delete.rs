//! Removes from a restored directory the entries that the snapshot does not have. Works by descriptor: no link is
//! followed, no mount is moved or crossed, and neither the repository nor a directory above it is ever removed. The
//! repository itself is skipped with a notice, as a snapshot skips it.

use super::context::Context;
use super::options::TEMPORARY;
use super::place::Place;
use super::stats::Stats;
use super::wanted_names::{self, WantedNames};
use crate::error::{Error, Result};
use crate::fs::mounts;
use crate::fs::status::Status;
use crate::monitor::{Change, Event};
use crate::snapshot::skipped::Skipped;
use crate::tree::deletion::in_place::{self, Kept};
use crate::tree::writer::{self, Attempt, Failure, Target as _};
use crate::util::path::join;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};

/// Why an entry is kept.
const BEYOND_MOUNT: &str =
    "it lies on another mount; nothing was deleted there: to delete there as well, name the mount point as PATH";
const HAS_REPOSITORY: &str = "the repository is in it, so all of it was kept";

/// Removes from the directory the entries that the snapshot does not have.
pub(super) fn extraneous(
    context: &Context<'_>,
    place: &Place,
    known: Option<&WantedNames>,
    stats: &mut Stats,
) -> Result<()> {
    let Some(target) = &place.dir.fd else { return Ok(()) };
    let mut problem = |error: Error| {
        context.monitor.problem(&error);
        stats.errors += 1;
    };
    let names = match names(target.as_fd()) {
        Ok(names) => names,
        Err(errno) => {
            problem(Error::io("read the directory", context.shown(&place.path()), errno));
            return Ok(());
        }
    };
    let missing = match known {
        Some(known) => known.missing(context.manifest, names)?,
        None => wanted_names::missing(context.manifest, &place.path(), names)?,
    };
    let Some(missing) = missing.filter(|missing| !missing.is_empty()) else { return Ok(()) };
    let directory = place.path();
    let found = match place.found_under_others(&missing) {
        Ok(found) => found,
        Err(errno) => {
            problem(
                Error::io("compare the names in", context.shown(&directory), errno).hint("nothing was deleted there"),
            );
            return Ok(());
        }
    };
    for name in missing {
        // Another run at the same time has temporary names there. Those of dead runs were removed when the directory
        // was entered.
        if found.contains(&name) || writer::is_temporary(&name, TEMPORARY) {
            continue;
        }
        let path = join(&directory, &name);
        let shown = context.shown(&path);
        if Status::at(target, &name).is_ok_and(|status| context.is_repository(&status)) {
            // No snapshot contains the repository.
            context.monitor.event(Event::RepositoryKept(&shown));
            continue;
        }
        if context.skipped.as_ref().is_some_and(|skipped| skipped.has(&path)) {
            problem(Error::failed("delete").at(shown).hint("the snapshot lacks it because of an error; it was kept"));
            continue;
        }
        if context.skipped.as_ref().is_some_and(Skipped::may_have_others) {
            let error = Error::failed("delete what the snapshot does not have in").at(context.shown(&directory));
            problem(
                error
                    .hint("the snapshot is incomplete, and may lack it because of an error; nothing was deleted there"),
            );
            break;
        }
        if place.is_beyond_mount {
            let error = Error::failed("delete what the snapshot does not have in").at(context.shown(&directory));
            problem(error.hint(BEYOND_MOUNT));
            break;
        }
        if context.monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        match tree(context, place, target.as_fd(), &name) {
            Ok(()) => {
                if context.options.dry_run {
                    context.monitor.planned(Change::Removed, &shown);
                }
                context.done.count(Change::Removed);
            }
            Err(failure) => problem(failure.skipped()?),
        }
    }
    Ok(())
}

/// Removes an entry; a directory is removed with everything in it. A dry run only finds out whether the entry may be
/// removed. A directory that holds the repository, a mount or a subvolume is kept whole, and so is all that lies beyond
/// a mount.
pub(super) fn tree(context: &Context<'_>, place: &Place, parent: BorrowedFd<'_>, name: &[u8]) -> Attempt<()> {
    let shown = &*context.shown(&place.join(name));
    let kept = |why| Err(Failure::Entry(Error::failed("delete").at(shown).hint(why)));
    match Status::at(parent, name) {
        Ok(_) if place.is_beyond_mount => return kept(BEYOND_MOUNT),
        Ok(status) if context.is_guarded(&status) => return kept(HAS_REPOSITORY),
        Ok(_) => {}
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(context.failure_at(shown, "delete", errno)),
    }
    let spared = context.repository();
    let removed = match context.options.dry_run {
        true => in_place::check(parent, name, shown, &context.mounts, spared),
        false => in_place::delete(parent, name, shown, &context.mounts, spared, context.monitor),
    };
    removed.or_else(|reason| match reason {
        Kept::Whole(error) => Err(Failure::Entry(error)),
        Kept::Spared => kept(HAS_REPOSITORY),
        Kept::Interrupted => Err(Failure::Fatal(Error::interrupted())),
        Kept::Partly => {
            let error = Error::io("delete", shown, Errno::NOTEMPTY);
            Err(Failure::Entry(error.hint("the entries named above could not be deleted")))
        }
    })
}

/// Whether something is mounted on a directory that was opened from `parent`: another filesystem, or another part of
/// the same one. If this is unknown, it counts as mounted.
pub(super) fn is_mounted_on(parent: BorrowedFd<'_>, dir: BorrowedFd<'_>) -> bool {
    match (mounts::mount_id(parent), mounts::mount_id(dir)) {
        (Ok(above), Ok(below)) => above != below,
        _ => true,
    }
}

fn names(dir: BorrowedFd<'_>) -> rustix::io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

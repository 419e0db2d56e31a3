//! A staged snapshot becomes a snapshot: its manifest and its tree move to their places, and `latest` points to it.
//!
//! All functions that change the repository need its lock.

use super::block_hashes;
use super::dir::Dir;
use super::durable;
use super::handle::Repository;
use super::layout::{FINISHED, JOURNAL, LATEST, POSITION};
use super::name::check_name;
use super::staging::Staging;
use super::subvolume;
use super::trash::{clear_entry, throw_away};
use crate::error::{Error, Result};
use crate::fs::rename;
use crate::tree::deletion::FreshNames;
use crate::tree::writer::is_found_in_other_case;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::AsFd;

/// The name of a directory that is moved as a test: it shows whether trees can be moved. No snapshot's name begins so.
const TRIAL: &str = ".pleach-trial";
/// The name of the link `latest` in `.pleach`, before it is moved to its place.
const NEW_LINK: &str = "latest.new";

/// Publishes a staged snapshot, complete and on the disk. Then moves `latest` to it.
///
/// Returns the error of a step that failed after the snapshot had appeared. The next run takes that step.
///
/// Entries of its `links` directory stay in the trash for [`clear_leftovers`](super::clear_leftovers).
pub(crate) fn publish(repository: &Repository, staging: Staging) -> Result<Option<Error>> {
    let name = staging.name();
    let failed = |errno| Error::io("publish the snapshot", repository.root.join(name), errno);
    let manifest = staging.dir.file("manifest", OFlags::RDONLY, Mode::empty())?;
    let synced = manifest
        .sync_all()
        .map_err(|cause| Error::io("sync", &staging.manifest, cause))
        .and_then(|()| repository.sync())
        .and_then(|()| {
            durable::sync_tree(&staging.tree, &repository.root)
                .map_err(|errno| Error::io("sync", repository.path(), errno))
        });
    if synced.is_err() {
        // Some of the staged data is lost: the next run must not take it over.
        let _ = staging.dir.unlink(FINISHED);
    }
    synced?;
    let subvolume = if staging.is_subvolume { subvolume::subvolume_at(&staging.tree) } else { None };
    // Before the tree becomes a snapshot, since making the link takes space that may be missing.
    let is_linked = make_link(repository, name)?;
    // The manifest is first: alone it is a leftover, which the next run recognises and clears. The tree makes it a
    // snapshot.
    fs::renameat(&staging.dir, "manifest", &repository.manifests, name).map_err(failed)?;
    repository.manifests.sync()?;
    block_hashes::publish(repository, &staging)?;
    rename::without_replacing(&staging.dir, "tree", &repository.root, name).map_err(failed)?;
    let sealed = match subvolume {
        // Only now, since a read-only subvolume cannot be moved. If this run is killed, the directory in `partial`
        // makes the next run do it. The sync that follows the move of `latest` writes all three: Btrfs commits as a
        // whole after a subvolume was moved.
        Some(before) => subvolume::seal(repository, name, staging.tree.as_fd(), &before, &manifest),
        None => {
            repository.root.sync()?;
            Ok(())
        }
    };
    let moved = move_link(repository, is_linked);
    repository.root.sync()?;
    let later = |error: Error, step| error.hint(format!("the snapshot {name} is complete; the next one {step}"));
    if let Err(error) = sealed {
        // The directory in `partial` stays.
        return Ok(Some(later(error, "makes it read-only")));
    }
    // The next run clears what stays.
    let _ = clear(repository, &staging);
    Ok(moved.err().map(|error| later(error, "moves the link")))
}

/// Removes the directory of a snapshot that was published.
fn clear(repository: &Repository, staging: &Staging) -> Result<()> {
    let (area, name) = (staging.area.of(repository)?, staging.name());
    for note in [FINISHED, JOURNAL, POSITION] {
        let _ = staging.dir.unlink(note);
    }
    let emptied = fs::unlinkat(&staging.dir, "links", AtFlags::REMOVEDIR)
        .and_then(|()| fs::unlinkat(&area, name, AtFlags::REMOVEDIR));
    match emptied {
        Ok(()) => Ok(()),
        Err(_) => throw_away(repository, &area, name.as_bytes(), &FreshNames::new()),
    }
}

/// Completes the publishing of a snapshot that was interrupted after its tree had been renamed.
pub(super) fn complete(repository: &Repository, partial: &Dir, name: &[u8]) -> Result<()> {
    let Some(name) = std::str::from_utf8(name).ok().filter(|name| check_name(name).is_ok()) else { return Ok(()) };
    if !partial.has_dir(name)? || partial.dir(name)?.stat("tree")?.is_some() {
        return Ok(());
    }
    let is_published = repository.manifests.stat(name)?.is_some() && repository.root.has_dir(name)?;
    if is_published { subvolume::seal_published(repository, name) } else { Ok(()) }
}

/// Moves the link `latest`, also after a removal. The link is on the disk when this returns.
pub(super) fn point_latest_to(repository: &Repository, name: &str) -> Result<()> {
    let is_linked = make_link(repository, name)?;
    move_link(repository, is_linked)?;
    repository.root.sync()
}

/// Makes the link that will be `latest`. Returns false on a filesystem without symbolic links: the ID `latest` does not
/// need the link.
fn make_link(repository: &Repository, name: &str) -> Result<bool> {
    clear_entry(repository, &repository.control, NEW_LINK.as_bytes(), &FreshNames::new())?;
    match fs::symlinkat(name, &repository.control, NEW_LINK) {
        Ok(()) => Ok(true),
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(errno) => Err(Error::io("make the link", repository.root.join(LATEST), errno)),
    }
}

/// Moves the link that was made to its place. A sync of the repository's directory writes this to the disk.
fn move_link(repository: &Repository, is_linked: bool) -> Result<()> {
    if !is_linked {
        return Ok(());
    }
    fs::renameat(&repository.control, NEW_LINK, &repository.root, LATEST).map_err(|errno| {
        let _ = repository.control.unlink(NEW_LINK);
        Error::io("move the link", repository.root.join(LATEST), errno)
    })
}

/// Checks that a tree can be moved to its place, before anything is copied. Returns whether names that differ only
/// in case are one name in the repository.
pub(crate) fn try_publishing(repository: &Repository) -> Result<bool> {
    let failed = |errno| {
        let error = Error::io("publish snapshots in", repository.path(), errno);
        match errno {
            Errno::XDEV => error.hint("nothing was copied; its directory .pleach must be on the same filesystem"),
            _ => error.hint("nothing was copied"),
        }
    };
    let partial = repository.partial()?;
    for dir in [&repository.root, &partial] {
        // A killed run may have left it.
        let _ = fs::unlinkat(dir, TRIAL, AtFlags::REMOVEDIR);
    }
    fs::mkdirat(&partial, TRIAL, Mode::RWXU).map_err(failed)?;
    let moved = rename::without_replacing(&partial, TRIAL, &repository.root, TRIAL);
    let is_caseless = is_found_in_other_case(&repository.root, TRIAL.as_bytes()).unwrap_or(false);
    let dir = if moved.is_ok() { &repository.root } else { &partial };
    let _ = fs::unlinkat(dir, TRIAL, AtFlags::REMOVEDIR);
    moved.map_err(failed)?;
    if repository.root.has_dir(LATEST)? {
        return Err(Error::io("move the link", repository.root.join(LATEST), Errno::ISDIR)
            .hint("nothing was copied; move that directory away"));
    }
    Ok(is_caseless)
}

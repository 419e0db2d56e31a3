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
use crate::sys::btrfs::logical::Subvolume;
use crate::tree::deletion::FreshNames;
use crate::tree::writer::is_found_in_other_case;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsFd;

/// The name of a directory that is moved as a test: it shows whether trees can be moved. No snapshot's name begins so.
const TRIAL: &str = ".pleach-trial";
/// The name of the link `latest` in `.pleach`, before it is moved to its place.
const NEW_LINK: &str = "latest.new";

/// A snapshot that has appeared, and the results of the steps after that. The next run takes those that failed.
#[derive(Debug)]
#[must_use]
pub(crate) struct Published {
    /// Whether its tree is read-only, if it must be.
    pub sealed: Result<()>,
    /// Whether `latest` was moved to it, if it must be.
    pub linked: Result<()>,
    /// Whether it survives a power cut.
    pub synced: Result<()>,
}

impl Published {
    /// Whether it is on the disk as it must be. Otherwise nothing that it replaces may be deleted before the next run.
    pub(crate) fn is_settled(&self) -> bool {
        self.sealed.is_ok() && self.synced.is_ok()
    }

    /// The errors of these steps.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &Error> {
        [&self.sealed, &self.linked, &self.synced].into_iter().filter_map(|step| step.as_ref().err())
    }
}

/// What becomes of the link `latest` when a snapshot is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Latest {
    /// It moves to the snapshot, which is the newest one.
    Moves,
    /// There may be newer snapshots. The caller calls [`correct_latest`](super::correct_latest).
    Stays,
}

/// Publishes a staged snapshot, complete and on the disk.
///
/// Entries of its `links` directory stay in the trash for [`clear_leftovers`](super::clear_leftovers).
///
/// # Errors
/// Only if the snapshot did not appear.
pub(crate) fn publish(repository: &Repository, staging: Staging, latest: Latest) -> Result<Published> {
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
    let is_linked = latest == Latest::Moves && make_link(repository, name)?;
    // The manifest is first: alone it is a leftover, which the next run recognises and clears. The tree makes it a
    // snapshot.
    fs::renameat(&staging.dir, "manifest", &repository.manifests, name).map_err(failed)?;
    repository.manifests.sync()?;
    block_hashes::publish(repository, &staging);
    rename::without_replacing(&staging.dir, "tree", &repository.root, name).map_err(failed)?;
    Ok(settle(repository, &staging, (subvolume.as_ref(), &manifest), is_linked))
}

/// Takes the steps after the snapshot has appeared.
fn settle(
    repository: &Repository,
    staging: &Staging,
    (subvolume, manifest): (Option<&Subvolume>, &File),
    is_linked: bool,
) -> Published {
    let name = staging.name();
    let (sealed, synced) = match subvolume {
        // Only now, since a read-only subvolume cannot be moved. If this run is killed, the directory in `partial`
        // makes the next run do it. The sync that follows the move of `latest` writes all three: Btrfs commits as a
        // whole after a subvolume was moved.
        Some(before) => (subvolume::seal(repository, name, staging.tree.as_fd(), before, manifest), Ok(())),
        None => (Ok(()), repository.root.sync()),
    };
    let linked = move_link(repository, is_linked);
    let synced = synced.and_then(|()| repository.root.sync());
    let hinted = |step: Result<()>, rest: &str| {
        step.map_err(|error| error.hint(format!("the snapshot {name} is complete{rest}")))
    };
    let published = Published {
        sealed: hinted(sealed, "; the next run makes it read-only"),
        linked: hinted(linked, "; the next run moves the link"),
        synced: hinted(synced, ", but may not survive a power cut"),
    };
    if published.is_settled() {
        // The next run clears what stays. If something is not settled, it needs the directory in `partial`.
        let _ = clear(repository, staging);
    }
    published
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

/// Completes the publishing of a snapshot that was interrupted after its tree had been renamed. The repository's
/// directory was synced, so the rename is on the disk as far as the kernel reports. On Btrfs the same commit as the
/// caller's next change, or an earlier one, writes that the tree is read-only.
pub(super) fn complete(repository: &Repository, partial: &Dir, name: &[u8]) -> Result<()> {
    let Some(name) = std::str::from_utf8(name).ok().filter(|name| check_name(name).is_ok()) else { return Ok(()) };
    if !partial.has_dir(name)? || partial.dir(name)?.stat("tree")?.is_some() {
        return Ok(());
    }
    if repository.manifests.stat(name)?.is_none() || !repository.root.has_dir(name)? {
        return Ok(());
    }
    subvolume::seal_published(repository, name)
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
    check_latest(repository, "nothing was copied")?;
    Ok(is_caseless)
}

/// Refuses a directory in the place of the link `latest`: the link could not be moved. `undone`: what the run has not
/// done, in words.
pub(crate) fn check_latest(repository: &Repository, undone: &str) -> Result<()> {
    if repository.root.has_dir(LATEST)? {
        return Err(Error::io("move the link", repository.root.join(LATEST), Errno::ISDIR)
            .hint(format!("{undone}; move that directory away")));
    }
    Ok(())
}

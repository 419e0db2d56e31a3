//! Removes snapshots: their trees go into the trash first, then everything that belongs to them.
//!
//! A snapshot exists as long as its tree and its manifest exist. The rename of its tree ends it, or on Btrfs the call
//! that deletes its subvolume. Both are atomic, and the repository's directory is synced before anything else of the
//! snapshot is removed. So after a power cut, each snapshot exists with everything or not at all, and the next run
//! clears the rest.
//!
//! No step needs a new file. If there is no space for a rename, some trees stay for another call, after the trash was
//! emptied. After a snapshot is gone, no error of a further step hides that.
//!
//! All functions need the repository's lock, except [`is_in_use`].

use super::block_hashes;
use super::dir::os;
use super::handle::Repository;
use super::layout::{BLOCKS, LATEST};
use super::marks::{self, MARKS};
use super::publish::point_latest_to;
use super::reading::{Claim, has_reader};
use super::records;
use super::subvolume::subvolume_at;
use super::trash::{clear_entry, throw_away};
use crate::error::{Error, Result};
use crate::sys::btrfs::subvolume;
use crate::tree::deletion::{self, FreshNames};
use crate::usage;
use rustix::fs::{self, AtFlags, FileType};
use rustix::io::Errno;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

/// The result of [`remove`].
#[derive(Debug, Default)]
pub(crate) struct Removed {
    /// The snapshots that are gone. The trash may still contain their trees.
    pub gone: Vec<String>,
    /// The numbers of the subvolumes that were deleted. The kernel frees their space later.
    pub subvolumes: Vec<u64>,
    /// Snapshots that another process reads, and were kept.
    pub in_use: Vec<String>,
    /// Snapshots that could not be removed, and why.
    pub failed: Vec<(String, Error)>,
    /// Snapshots that stay until there is space for a rename, and why.
    pub without_space: Vec<(String, Error)>,
    /// Why a sync failed after the snapshots were gone.
    pub unsynced: Option<Error>,
    /// Whether a power cut may bring the snapshots back that are gone. Then nothing in the trash may be deleted.
    pub is_volatile: bool,
    /// Whether something else remains of snapshots that are gone. Clearing the leftovers tries again and reports it.
    pub has_rest: bool,
}

/// Removes the snapshots `names` from the repository. Their trees may still be in the trash afterwards.
pub(crate) fn remove(repository: &Repository, names: &[String]) -> Removed {
    let mut removed = Removed::default();
    let mut claims = Vec::new();
    for name in names {
        match Claim::take(&repository.manifests, name) {
            Ok(Some(claim)) => claims.push(claim),
            Ok(None) => removed.in_use.push(name.clone()),
            Err(error) => removed.failed.push((name.clone(), error)),
        }
    }
    let going: Vec<&str> = claims.iter().map(|claim| claim.name.as_str()).collect();
    if latest(repository).is_some_and(|linked| going.contains(&linked.as_str())) {
        // On a full filesystem there may be no space for a link: then it is corrected at the end.
        let _ = correct_latest_without(repository, &going);
    }
    let fresh = FreshNames::new();
    for claim in &claims {
        match take_tree(repository, &claim.name, &fresh, &mut removed.subvolumes) {
            Ok(()) => removed.gone.push(claim.name.clone()),
            Err(error) if is_full(&error) => removed.without_space.push((claim.name.clone(), error)),
            Err(error) => removed.failed.push((claim.name.clone(), error)),
        }
    }
    if removed.gone.is_empty() {
        return removed;
    }
    let synced = repository.root.sync().and_then(|()| repository.trash()?.sync());
    if let Err(error) = synced {
        let hint = "the snapshots are removed, but a power cut may bring them back; the next run deletes their files";
        removed.unsynced = Some(error.hint(hint));
        removed.is_volatile = true;
        return removed;
    }
    for name in &removed.gone {
        if clear_entry(repository, &repository.manifests, name.as_bytes(), &fresh).is_err() {
            removed.has_rest = true;
            continue;
        }
        records::remove(repository, name);
        removed.has_rest |= marks::remove(repository, name).is_err();
        // The next run clears what remains of these.
        block_hashes::drop_blocks(repository, name);
    }
    removed.unsynced = repository.manifests.sync().map_err(|error| error.hint("the snapshots are removed")).err();
    drop(claims);
    removed
}

/// Whether another process reads the snapshot now, as far as the kernel shows its lock. Takes none itself.
pub(crate) fn is_in_use(repository: &Repository, name: &str) -> bool {
    has_reader(&repository.manifests, name)
}

/// The paths of everything that is removed with a snapshot.
pub(crate) fn parts(repository: &Repository, name: &str) -> Vec<PathBuf> {
    let kinds = ["manifests", MARKS, BLOCKS].into_iter().chain(records::KINDS);
    let control = kinds.map(|kind| repository.control.join(kind).join(name));
    let paths = [repository.root.join(name)].into_iter().chain(control);
    // No link is followed, not even one that replaced a directory of the repository.
    let is_dir = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let is_own = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir() || found.is_file());
    paths.filter(|path| is_own(path) && path.parent().is_some_and(is_dir)).collect()
}

/// Points `latest` to the newest snapshot, if it points elsewhere. If a damaged manifest hides which one is the newest,
/// a link to an existing snapshot stays, and another link is removed.
pub(crate) fn correct_latest(repository: &Repository) -> Result<()> {
    correct_latest_without(repository, &[])
}

fn correct_latest_without(repository: &Repository, going: &[&str]) -> Result<()> {
    let stat = repository.root.stat(LATEST)?;
    if stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::Symlink) {
        return Ok(());
    }
    let listing = repository.listing()?;
    let is_staying = |name: &str| !going.contains(&name);
    let newest = listing.snapshots.iter().rev().map(|info| info.name.as_str()).find(|name| is_staying(name));
    let linked = latest(repository);
    let is_sure = listing.problems.is_empty();
    match (newest, linked) {
        (Some(newest), linked) if is_sure && linked.as_deref() != Some(newest) => {
            point_latest_to(repository, newest).inspect_err(|_| {
                // No link is better than one that leads nowhere. The ID `latest` does not need it.
                if linked.is_some_and(|linked| !leads_to_snapshot(repository, &linked)) {
                    let _ = repository.root.unlink(LATEST);
                }
            })
        }
        (_, Some(linked)) if !is_staying(&linked) || !leads_to_snapshot(repository, &linked) => {
            repository.root.unlink(LATEST)?;
            repository.root.sync()
        }
        _ => Ok(()),
    }
}

fn leads_to_snapshot(repository: &Repository, linked: &str) -> bool {
    repository.snapshot_names().is_ok_and(|names| names.iter().any(|name| name == linked))
}

/// The link `latest`, if it leads to one of these snapshots, which are removed. Another one takes its place if a
/// snapshot stays.
pub(crate) fn latest_that_goes(repository: &Repository, names: &[String]) -> Option<usage::Link> {
    latest(repository).filter(|linked| names.contains(linked))?;
    let inode = repository.root.stat(LATEST).ok()??.st_ino;
    let is_replaced = repository.listing().ok()?.snapshots.iter().any(|info| !names.contains(&info.name));
    let made_in = if is_replaced { Some(fs::fstat(&repository.control).ok()?.st_ino) } else { None };
    Some(usage::Link { path: repository.root.join(LATEST), inode, made_in })
}

/// The name in the link `latest`.
fn latest(repository: &Repository) -> Option<String> {
    fs::readlinkat(&repository.root, LATEST, Vec::new()).ok()?.into_string().ok()
}

/// Takes the tree of a snapshot out of the repository: into the trash, or deletes its subvolume.
fn take_tree(repository: &Repository, name: &str, fresh: &FreshNames, subvolumes: &mut Vec<u64>) -> Result<()> {
    let root = &repository.root;
    let tree = match root.dir(name) {
        Ok(tree) => subvolume_at(&tree),
        // Its owner may not read it.
        Err(_) => None,
    };
    let Some(tree) = tree else { return throw_away(repository, root, name.as_bytes(), fresh) };
    if let Some(point) = deletion::mount_at(root.as_fd(), name.as_bytes()) {
        return Err(deletion::busy(&root.join(os(name.as_bytes())), &point));
    }
    match subvolume::destroy(root, name.as_bytes()) {
        Ok(()) => {
            subvolumes.push(tree.id);
            Ok(())
        }
        // It contains another subvolume, or this user may not delete it in one call. In the trash it is deleted entry
        // by entry. A read-only subvolume cannot be moved.
        Err(Errno::NOTEMPTY | Errno::PERM | Errno::ACCESS | Errno::ROFS) => {
            let failed = |errno| Error::io("make the snapshot writable", root.join(name), errno);
            let fd = root.dir(name)?;
            let partial = repository.partial()?;
            if tree.read_only {
                // If this process is killed before the move, the next run finds this and makes the tree read-only
                // again. On a full filesystem it may not exist.
                let _ = partial.make_dir(name);
                subvolume::set_read_only(&fd, false).map_err(failed)?;
            }
            let moved = throw_away(repository, root, name.as_bytes(), fresh).inspect_err(|_| {
                let _ = subvolume::set_read_only(&fd, tree.read_only);
            });
            let _ = fs::unlinkat(&partial, name, AtFlags::REMOVEDIR);
            moved
        }
        Err(errno) => Err(Error::io("delete the subvolume", root.join(name), errno)),
    }
}

fn is_full(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

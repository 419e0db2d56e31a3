//! Trees that are Btrfs subvolumes. They begin as a snapshot of an earlier tree, and are read-only once published.
//!
//! A new tree may only begin as a snapshot of a tree that still matches its manifest exactly. Somebody may make a
//! snapshot writable, to remove data from it, and so change its tree without its manifest. So publishing records two
//! facts with the manifest: the subvolume of the tree, and the last transaction that changed anything in it.

use super::dir::Dir;
use super::handle::Repository;
use super::name::check_name;
use crate::error::{Error, Result};
use crate::sys::btrfs::logical::{self, ROOT_DIRECTORY, Subvolume};
use crate::sys::btrfs::subvolume;
use rustix::fs::{self, AtFlags, Mode, OFlags, XattrFlags};
use std::fmt::Write as _;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The extended attribute of a manifest that identifies the subvolume of its tree.
const NOTE: &str = "user.pleach.tree";

/// The directory of frozen snapshots of sources, in the staging area. No snapshot can have this name.
const FROZEN: &str = ".frozen";

/// The beginning of a staged tree.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start<'a> {
    /// An empty directory.
    Directory,
    /// An empty subvolume.
    Subvolume,
    /// A snapshot of the tree of an earlier snapshot, which is a subvolume.
    SnapshotOf(BorrowedFd<'a>),
}

/// Whether trees can be subvolumes here. The test makes one in the staging area and deletes it. The process must
/// also be able to write into directories with owners and modes that forbid it, because the last tree may have such
/// directories.
pub(crate) fn can_make_subvolumes(repository: &Repository) -> bool {
    let Ok(partial) = repository.partial() else { return false };
    let name = format!(".trial-{}", std::process::id());
    if subvolume::create(&partial, name.as_bytes()).is_err() {
        return false;
    }
    let writes = partial.dir(&name).is_ok_and(|trial| writes_anywhere(&trial));
    let deleted = subvolume::destroy(&partial, name.as_bytes()).is_ok();
    if !deleted {
        // Everyone may remove an empty subvolume like a directory. If that fails, the next run finds it.
        let _ = fs::unlinkat(&partial, name.as_str(), AtFlags::REMOVEDIR);
    }
    writes && deleted
}

/// The directory for frozen snapshots of sources. It is part of the staging area, so the next run clears snapshots
/// that a killed run left there.
pub(crate) fn frozen_dir(repository: &Repository) -> Result<OwnedFd> {
    Ok(repository.partial()?.make_dir(FROZEN)?.into())
}

/// Removes the directory for frozen snapshots, if it exists and is empty.
pub(crate) fn remove_frozen_dir(repository: &Repository) {
    if let Ok(partial) = repository.partial() {
        let _ = fs::unlinkat(&partial, FROZEN, AtFlags::REMOVEDIR);
    }
}

/// Whether a snapshot's tree is a subvolume. Checks nothing else of it.
pub(crate) fn is_subvolume(repository: &Repository, name: &str) -> Result<bool> {
    Ok(subvolume_at(repository.tree(name)?).is_some())
}

/// Whether a snapshot's tree is a subvolume that has not changed since it was published.
pub(crate) fn is_as_published(repository: &Repository, name: &str) -> Result<bool> {
    check_name(name)?;
    let Some(tree) = subvolume_at(repository.tree(name)?).filter(|tree| tree.read_only) else { return Ok(false) };
    let manifest = repository.manifests.file(name, OFlags::RDONLY, Mode::empty())?;
    let mut noted = [0; 128];
    let length = fs::fgetxattr(&manifest, NOTE, &mut noted[..]).unwrap_or(0);
    Ok(noted.get(..length) == Some(note(&tree).as_bytes()))
}

/// Makes the tree of a snapshot read-only, if its publishing was interrupted just before that step.
pub(super) fn seal_published(repository: &Repository, name: &str) -> Result<()> {
    let tree = repository.tree(name)?;
    match subvolume_at(&tree) {
        // The tree may have changed meanwhile, so no later tree will begin with it.
        Some(subvolume) if !subvolume.read_only => make_read_only(repository, name, tree.as_fd()),
        _ => Ok(()),
    }
}

/// Makes a tree that was just published read-only. Records it with its manifest, if the tree still is as it was
/// `before`. A sync of the repository's directory writes this to the disk, together with the rename.
pub(super) fn seal(
    repository: &Repository,
    name: &str,
    tree: BorrowedFd<'_>,
    before: &Subvolume,
    manifest: &File,
) -> Result<()> {
    make_read_only(repository, name, tree)?;
    if subvolume_at(tree).is_some_and(|after| note(&after) == note(before)) {
        // Without this record the next snapshot clones file by file, and has no other disadvantage.
        let _ = fs::fsetxattr(manifest, NOTE, note(before).as_bytes(), XattrFlags::empty());
    }
    Ok(())
}

/// Makes the tree of a published snapshot writable for a repair, if it is a subvolume. Returns whether it is: then it
/// must be read-only afterwards. A killed repair, or a person, may have made it writable already.
pub(super) fn unseal(repository: &Repository, name: &str, tree: BorrowedFd<'_>) -> Result<bool> {
    match subvolume_at(tree) {
        Some(subvolume) if subvolume.read_only => subvolume::set_read_only(tree, false)
            .map(|()| true)
            .map_err(|errno| Error::io("make the snapshot writable", repository.root.join(name), errno)),
        found => Ok(found.is_some()),
    }
}

/// Undoes [`unseal`] after a repair. Records it with its manifest, if the next tree could begin with it before the
/// repair (`is_as_published`). The changes of the repair are on the disk.
pub(super) fn reseal(repository: &Repository, name: &str, tree: BorrowedFd<'_>, is_as_published: bool) -> Result<()> {
    make_read_only(repository, name, tree)?;
    if is_as_published && let Some(after) = subvolume_at(tree) {
        let manifest = repository.manifests.file(name, OFlags::RDONLY, Mode::empty())?;
        // Without this record the next snapshot clones file by file, and has no other disadvantage.
        let _ = fs::fsetxattr(&manifest, NOTE, note(&after).as_bytes(), XattrFlags::empty());
    }
    Ok(())
}

fn make_read_only(repository: &Repository, name: &str, tree: BorrowedFd<'_>) -> Result<()> {
    subvolume::set_read_only(tree, true)
        .map_err(|errno| Error::io("make the snapshot read-only", repository.root.join(name), errno))
}

/// Makes a tree called `name` in `dir`, and opens it.
pub(super) fn make(dir: &Dir, name: &str, start: Start<'_>) -> Result<Dir> {
    let failed = |errno| Error::io("make the subvolume", dir.join(name), errno);
    match start {
        Start::Directory => return dir.make_dir(name),
        Start::Subvolume => subvolume::create(dir, name.as_bytes()).map_err(failed)?,
        Start::SnapshotOf(tree) => subvolume::snapshot(tree, dir, name.as_bytes(), false).map_err(failed)?,
    }
    let tree = dir.dir(name)?;
    tree.make_private()?;
    Ok(tree)
}

/// The subvolume that has this directory as its root, if it is one.
pub(super) fn subvolume_at(dir: impl AsFd) -> Option<Subvolume> {
    let is_root = fs::fstat(&dir).is_ok_and(|stat| stat.st_ino == ROOT_DIRECTORY);
    is_root.then(|| logical::subvolume(dir).ok()).flatten()
}

fn writes_anywhere(dir: &Dir) -> bool {
    let made = fs::fchmod(dir, Mode::empty()).and_then(|()| fs::mkdirat(dir, "entry", Mode::RWXU));
    made.and_then(|()| fs::unlinkat(dir, "entry", AtFlags::REMOVEDIR)).is_ok()
}

fn note(tree: &Subvolume) -> String {
    let mut text = String::new();
    for byte in tree.uuid {
        let _ = write!(text, "{byte:02x}");
    }
    let _ = write!(text, " {}", tree.changed);
    text
}

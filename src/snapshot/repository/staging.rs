//! A snapshot in the making: its directory in the staging area. `publish` moves it to its place.
//!
//! All functions that change the repository need its lock.

use super::dir::Dir;
use super::handle::Repository;
use super::layout::{FINISHED, INCOMING, LIVE};
use super::marks;
use super::name::check_name;
use super::records;
use super::subvolume::{self, Start};
use super::trash::{clear_entry, throw_away};
use crate::error::{Error, Result};
use crate::snapshot::manifest::{Reader, Time};
use crate::tree::deletion::FreshNames;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// A snapshot in the making, in `.pleach/partial/NAME`.
#[derive(Debug)]
pub(crate) struct Staging {
    /// The root of the tree to be filled.
    pub tree: OwnedFd,
    /// A directory for data that the making needs and the snapshot does not: the first names of hard links.
    pub links: OwnedFd,
    /// The path of the manifest, which does not exist yet.
    pub manifest: PathBuf,
    /// Whether the tree is a Btrfs subvolume.
    pub is_subvolume: bool,
    /// Whether the tree began as a snapshot of an earlier one.
    pub is_based: bool,
    name: String,
    pub(super) dir: Dir,
    pub(super) area: Area,
}

/// The directory of snapshots in the making.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    /// Of those that a run takes. The next run clears them.
    Partial,
    /// Of those that are received. They stay until the rest arrives.
    Incoming,
}

impl Area {
    /// Its directory.
    pub(super) fn of(self, repository: &Repository) -> Result<Dir> {
        match self {
            Area::Partial => repository.partial(),
            Area::Incoming => repository.control.make_dir(INCOMING),
        }
    }
}

impl Staging {
    /// What remains of a snapshot that is received, if its tree is there.
    pub(super) fn remaining(name: &str, dir: Dir, is_based: bool) -> Option<Staging> {
        let tree: OwnedFd = dir.dir("tree").ok()?.into();
        let links = dir.make_dir("links").ok()?.into();
        let is_subvolume = subvolume::subvolume_at(&tree).is_some();
        let (manifest, name, area) = (dir.join("manifest"), name.to_string(), Area::Incoming);
        Some(Staging { tree, links, manifest, is_subvolume, is_based, name, dir, area })
    }

    /// Opens one of its further files.
    pub(crate) fn file(&self, name: &str, flags: OFlags) -> Result<File> {
        self.dir.file(name, flags, Mode::RUSR | Mode::WUSR)
    }

    /// Replaces one of its further files by another one.
    pub(crate) fn replace(&self, new: &str, name: &str) -> Result<()> {
        self.dir.replace(new, name)
    }

    /// Removes one of its files, if it exists.
    pub(crate) fn unlink(&self, name: &str) -> Result<()> {
        self.dir.unlink(name)
    }

    /// The snapshot's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Makes the manifest's file.
    pub(crate) fn create_manifest(&self) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        self.dir.file("manifest", flags, Mode::RUSR | Mode::WUSR)
    }

    /// Opens the manifest, which is complete.
    pub(crate) fn read_manifest(&self) -> Result<Reader> {
        Reader::from_file(self.file("manifest", OFlags::RDONLY)?, &self.manifest)
    }

    /// Makes the list of finished files.
    pub(crate) fn create_finished(&self) -> Result<File> {
        self.dir.file(FINISHED, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR)
    }
}

/// The name for a snapshot begun at `created`: the requested name, or that time in UTC, as `2026-11-20T020000Z`. If
/// another snapshot has this time as its name, a number follows.
///
/// # Errors
/// If the requested name is invalid or taken.
pub(crate) fn free_name(repository: &Repository, asked: Option<&str>, created: Time) -> Result<String> {
    if let Some(name) = asked {
        check_name(name)?;
        if name == LIVE {
            return Err(Error::usage("call a snapshot 'live': `diff` means the sources by it"));
        }
        check_free(repository, name)?;
        return Ok(name.to_string());
    }
    let moment = jiff::Timestamp::from_second(created.seconds).unwrap_or_default();
    let name = moment.strftime("%Y-%m-%dT%H%M%SZ").to_string();
    let mut free = name.clone();
    let mut number = 1_u32;
    while repository.root.stat(&free)?.is_some() {
        number += 1;
        free = format!("{name}-{number}");
    }
    Ok(free)
}

fn check_free(repository: &Repository, name: &str) -> Result<()> {
    if repository.root.stat(name)?.is_none() {
        return Ok(());
    }
    let hint = match (repository.manifests.stat(name)?.is_some(), repository.root.has_tree(name)?) {
        (true, true) => "choose another name",
        (true, false) => "the tree of this snapshot is elsewhere; remove this entry, or choose another name",
        (false, _) => "it is not a snapshot; choose another name",
    };
    Err(Error::io("make the snapshot", repository.root.join(name), Errno::EXIST).hint(hint))
}

/// Begins a snapshot, with a tree as in `start`. A leftover of an earlier attempt at this name is put into the
/// trash.
///
/// # Errors
/// If the name is invalid or taken.
pub(crate) fn begin(repository: &Repository, name: &str, start: Start<'_>) -> Result<Staging> {
    begin_in(repository, Area::Partial, name, start)
}

/// The same for a snapshot that is received.
pub(crate) fn begin_incoming(repository: &Repository, name: &str, start: Start<'_>) -> Result<Staging> {
    begin_in(repository, Area::Incoming, name, start)
}

fn begin_in(repository: &Repository, area: Area, name: &str, start: Start<'_>) -> Result<Staging> {
    check_name(name)?;
    check_free(repository, name)?;
    if repository.manifests.stat(name)?.is_some() {
        // Its tree was never published, or is gone already. An earlier run may have failed to sync that.
        repository.root.sync()?;
        clear_entry(repository, &repository.manifests, name.as_bytes(), &FreshNames::new())?;
    }
    records::remove(repository, name);
    marks::remove(repository, name)?;
    let parent = area.of(repository)?;
    if parent.stat(name)?.is_some() {
        throw_away(repository, &parent, name.as_bytes(), &FreshNames::new())?;
    }
    let dir = parent.make_dir(name)?;
    let tree = subvolume::make(&dir, "tree", start)?.into();
    let links = dir.make_dir("links")?.into();
    Ok(Staging {
        tree,
        links,
        manifest: dir.join("manifest"),
        is_subvolume: !matches!(start, Start::Directory),
        is_based: matches!(start, Start::SnapshotOf(_)),
        name: name.to_string(),
        dir,
        area,
    })
}

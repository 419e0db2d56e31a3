//! A snapshot in the making: its directory in the staging area. `publish` moves it to its place.

use super::added;
use super::dir::Dir;
use super::handle::Repository;
use super::layout::FINISHED;
use super::name::check_name;
use super::subvolume::{self, Start};
use super::trash::{clear_entry, throw_away};
use crate::error::{Error, Result};
use crate::snapshot::manifest::Time;
use crate::tree::deletion::FreshNames;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// A snapshot in the making, in `.pleach/partial/NAME`.
#[derive(Debug)]
pub struct Staging {
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
}

impl Staging {
    /// The snapshot's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Makes the manifest's file.
    pub(crate) fn create_manifest(&self) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        self.dir.file("manifest", flags, Mode::RUSR | Mode::WUSR)
    }

    /// Makes the list of finished files.
    pub(crate) fn create_finished(&self) -> Result<File> {
        self.dir.file(FINISHED, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR)
    }
}

/// All of this needs the repository's lock.
impl Repository {
    /// The name for a snapshot begun at `created`: the requested name, or that time in UTC, as `2026-11-20T020000Z`. If
    /// another snapshot has this time as its name, a number follows.
    ///
    /// # Errors
    /// If the requested name is invalid or taken.
    pub(crate) fn free_name(&self, asked: Option<&str>, created: Time) -> Result<String> {
        if let Some(name) = asked {
            check_name(name)?;
            self.check_free(name)?;
            return Ok(name.to_string());
        }
        let moment = jiff::Timestamp::from_second(created.seconds).unwrap_or_default();
        let name = moment.strftime("%Y-%m-%dT%H%M%SZ").to_string();
        let mut free = name.clone();
        let mut number = 1_u32;
        while self.root.stat(&free)?.is_some() {
            number += 1;
            free = format!("{name}-{number}");
        }
        Ok(free)
    }

    fn check_free(&self, name: &str) -> Result<()> {
        if self.root.stat(name)?.is_none() {
            return Ok(());
        }
        let is_snapshot = self.manifests.stat(name)?.is_some();
        let hint = if is_snapshot { "choose another name" } else { "it is no snapshot; choose another name" };
        Err(Error::io("make the snapshot", self.root.join(name), Errno::EXIST).hint(hint))
    }

    /// Begins a snapshot, with a tree as in `start`. A leftover of an earlier attempt at this name is put into the
    /// trash.
    ///
    /// # Errors
    /// If the name is invalid or taken.
    pub(crate) fn begin(&self, name: &str, start: Start<'_>) -> Result<Staging> {
        check_name(name)?;
        self.check_free(name)?;
        // The tree of such a manifest was never published, or is gone already.
        clear_entry(self, &self.manifests, name.as_bytes(), &FreshNames::new())?;
        added::clear(self, Some(name));
        let partial = self.partial()?;
        if partial.stat(name)?.is_some() {
            throw_away(self, &partial, name.as_bytes(), &FreshNames::new())?;
        }
        let dir = partial.make_dir(name)?;
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
        })
    }
}

//! How a snapshot comes to be there at once: it is built aside, synced, and renamed into its place.

use super::dir::os;
use super::durable;
use super::leftovers::{FINISHED, Leftover};
use super::subvolume::{self, Start};
use super::{Dir, LATEST, Repository, check_name};
use crate::error::{Error, Result};
use crate::fs::rename;
use crate::monitor::Monitor;
use crate::snapshot::manifest::Time;
use crate::tree::deletion::{self, FreshNames};
use crate::tree::writer::is_found_in_other_case;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// The name of a directory that is moved to find out whether trees can be. No snapshot's name begins so.
const TRIAL: &str = ".pleach-trial";

/// A snapshot in the making, in `.pleach/partial/NAME`.
#[derive(Debug)]
pub struct Staging {
    /// The root of the tree to be filled.
    pub tree: OwnedFd,
    /// A directory for what the making needs and the snapshot does not: first names of hard links.
    pub links: OwnedFd,
    /// Where the manifest is to be; there is no file yet.
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
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the manifest's file.
    pub fn create_manifest(&self) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        self.dir.file("manifest", flags, Mode::RUSR | Mode::WUSR)
    }
}

/// All of this needs the repository's lock.
impl Repository {
    /// The name for a snapshot begun at `created`: the one that was asked for, or that moment in UTC, as
    /// `2026-11-20T020000Z`, with a number behind it if another has it.
    ///
    /// # Errors
    /// If the name that was asked for cannot be one, or is taken.
    pub fn free_name(&self, asked: Option<&str>, created: Time) -> Result<String> {
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

    /// Begins a snapshot, with a tree as `start` says. A leftover of an earlier attempt at this name is put into the trash.
    ///
    /// # Errors
    /// If the name cannot be one, or is taken.
    pub fn begin(&self, name: &str, start: Start<'_>) -> Result<Staging> {
        check_name(name)?;
        self.check_free(name)?;
        // Its tree was never published, or is gone already.
        self.clear_entry(&self.manifests, name.as_bytes(), &FreshNames::new())?;
        self.clear_added(Some(name));
        let partial = self.partial()?;
        if partial.stat(name)?.is_some() {
            self.throw_away(&partial, name.as_bytes(), &FreshNames::new())?;
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

    /// Makes a staged snapshot appear, complete and on the disk, then moves `latest` to it.
    ///
    /// Whatever was in its `links` directory is left in the trash for [`clear_leftovers`](Self::clear_leftovers).
    pub fn publish(&self, staging: Staging) -> Result<()> {
        let name = staging.name.as_str();
        let failed = |errno| Error::io("publish the snapshot", self.root.join(name), errno);
        let manifest = staging.dir.file("manifest", OFlags::RDONLY, Mode::empty())?;
        let synced = manifest
            .sync_all()
            .map_err(|cause| Error::io("sync", &staging.manifest, cause))
            .and_then(|()| self.sync())
            .and_then(|()| {
                durable::sync_tree(&staging.tree, &self.root).map_err(|errno| Error::io("sync", self.path(), errno))
            });
        if synced.is_err() {
            // Some of what was made is lost: the next run must not take it over.
            let _ = staging.dir.unlink(FINISHED);
        }
        synced?;
        let subvolume = if staging.is_subvolume { subvolume::subvolume_at(&staging.tree) } else { None };
        // The manifest first: alone it is a leftover, which the next run knows and clears. The tree makes it a snapshot.
        fs::renameat(&staging.dir, "manifest", &self.manifests, name).map_err(failed)?;
        self.manifests.sync()?;
        self.publish_blocks(&staging)?;
        rename::without_replacing(&staging.dir, "tree", &self.root, name).map_err(failed)?;
        match subvolume {
            // Not before, since a read-only subvolume cannot be moved. What stands in `partial` tells the next run to do it. The
            // sync that follows the move of `latest` writes all three: Btrfs commits whole when a subvolume was moved.
            Some(before) => self.seal(name, staging.tree.as_fd(), &before, &manifest)?,
            None => self.root.sync()?,
        }
        self.point_latest_to(name)?;
        let partial = self.partial()?;
        let _ = staging.dir.unlink(FINISHED);
        let emptied = fs::unlinkat(&staging.dir, "links", AtFlags::REMOVEDIR)
            .and_then(|()| fs::unlinkat(&partial, name, AtFlags::REMOVEDIR));
        match emptied {
            Ok(()) => Ok(()),
            Err(_) => self.throw_away(&partial, name.as_bytes(), &FreshNames::new()),
        }
    }

    /// Gives a staged snapshot up and deletes it, with all other leftovers.
    pub fn discard(&self, staging: Staging, threads: usize, monitor: &dyn Monitor) -> Result<()> {
        self.throw_away(&self.partial()?, staging.name.as_bytes(), &FreshNames::new())?;
        self.clear_leftovers(&[], threads, monitor).map(|_| ())
    }

    /// Deletes all that is in the trash.
    pub fn empty_trash(&self, threads: usize, monitor: &dyn Monitor) -> Result<deletion::Stats> {
        let trash = self.trash()?;
        let options = deletion::Options { threads: Some(threads), subvolumes: true };
        deletion::empty(trash.as_fd(), trash.path(), &options, monitor)
    }

    /// Moves the link `latest`; also after a removal. On the disk when it returns.
    pub fn point_latest_to(&self, name: &str) -> Result<()> {
        let failed = |errno| Error::io("move the link", self.root.join(LATEST), errno);
        self.clear_entry(&self.control, b"latest.new", &FreshNames::new())?;
        match fs::symlinkat(name, &self.control, "latest.new") {
            Ok(()) => fs::renameat(&self.control, "latest.new", &self.root, LATEST).map_err(failed)?,
            // No symbolic links on this filesystem. The ID `latest` does not need the link.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(errno) => return Err(failed(errno)),
        }
        self.root.sync()
    }

    /// Finds out whether a tree can be moved to its place, before anything is copied. Whether names that differ only in
    /// case are one name in the repository.
    pub fn try_publishing(&self) -> Result<bool> {
        let failed = |errno| {
            let error = Error::io("publish snapshots in", self.path(), errno);
            match errno {
                Errno::XDEV => error.hint("nothing was copied; its directory .pleach must be on the same filesystem"),
                _ => error.hint("nothing was copied"),
            }
        };
        let partial = self.partial()?;
        for dir in [&self.root, &partial] {
            // Left by a killed run.
            let _ = fs::unlinkat(dir, TRIAL, AtFlags::REMOVEDIR);
        }
        fs::mkdirat(&partial, TRIAL, Mode::RWXU).map_err(failed)?;
        let moved = rename::without_replacing(&partial, TRIAL, &self.root, TRIAL);
        let is_caseless = is_found_in_other_case(&self.root, TRIAL.as_bytes()).unwrap_or(false);
        let dir = if moved.is_ok() { &self.root } else { &partial };
        let _ = fs::unlinkat(dir, TRIAL, AtFlags::REMOVEDIR);
        moved.map_err(failed)?;
        if self.root.has_dir(LATEST)? {
            return Err(Error::io("move the link", self.root.join(LATEST), Errno::ISDIR)
                .hint("nothing was copied; move that directory away"));
        }
        Ok(is_caseless)
    }

    /// Removes what killed or failed runs left: staged snapshots but those in `used`, manifests without a tree, the trash.
    /// Not to be called between [`begin`](Self::begin) and [`publish`](Self::publish).
    pub fn clear_leftovers(&self, used: &[Leftover], threads: usize, monitor: &dyn Monitor) -> Result<deletion::Stats> {
        let partial = self.partial()?;
        let fresh = FreshNames::new();
        for name in partial.names()? {
            if used.iter().any(|leftover| leftover.is_named(&name)) {
                continue;
            }
            if let Some(point) = deletion::mount_at(partial.as_fd(), &name) {
                // Moving it would move the mount. It is in nobody's way here.
                monitor.problem(&deletion::busy(&partial.join(os(&name)), &point));
                continue;
            }
            self.complete(&partial, &name)?;
            self.throw_away(&partial, &name, &fresh)?;
        }
        for name in self.manifests.names()? {
            if !self.root.has_dir(os(&name))? {
                self.clear_entry(&self.manifests, &name, &fresh)?;
            }
        }
        self.clear_blocks()?;
        self.clear_added(None);
        self.empty_trash(threads, monitor)
    }

    /// Completes the publishing of a snapshot that was cut off when its tree had been renamed already.
    fn complete(&self, partial: &Dir, name: &[u8]) -> Result<()> {
        let Some(name) = std::str::from_utf8(name).ok().filter(|name| check_name(name).is_ok()) else { return Ok(()) };
        if !partial.has_dir(name)? || partial.dir(name)?.stat("tree")?.is_some() {
            return Ok(());
        }
        let is_published = self.manifests.stat(name)?.is_some() && self.root.has_dir(name)?;
        if is_published { self.seal_published(name) } else { Ok(()) }
    }

    /// Removes an entry that should be no directory; one that is goes into the trash.
    fn clear_entry(&self, from: &Dir, name: &[u8], fresh: &FreshNames) -> Result<()> {
        match from.stat(os(name))? {
            None => Ok(()),
            Some(stat) if fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::Directory => {
                self.throw_away(from, name, fresh)
            }
            Some(_) => from.unlink(os(name)),
        }
    }

    pub(super) fn throw_away(&self, from: &Dir, name: &[u8], fresh: &FreshNames) -> Result<()> {
        if let Some(point) = deletion::mount_at(from.as_fd(), name) {
            return Err(deletion::busy(&from.join(os(name)), &point));
        }
        fresh
            .rename(from.as_fd(), name, self.trash()?.as_fd())
            .map(|_| ())
            .map_err(|errno| Error::io("put into the trash", from.join(os(name)), errno))
    }
}

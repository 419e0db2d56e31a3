//! Prepares the target for each entry. The library replaces nothing but the content of files, and one entry that it
//! cannot write ends its job. So such an entry is reported here, and the library never sees it.

use super::damage::{damaged, ends_run};
use super::durable::Filesystems;
use super::job::{Job, RestoreOptions};
use super::obstacle::{exchanged, in_the_way, link, link_in_the_way, removable, vacate};
use super::trust::Trust;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::direct_io;
use rustic_core::jiff::Timestamp;
use rustic_core::repofile::Node;
use rustix::fs::{Access, access};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The inode of an entry with several names in the snapshot.
type Inode = (u64, u64);

/// The target, and what of the snapshot is not restored into it.
pub(super) struct Room<'r> {
    job: &'r Job<'r>,
    /// The filesystems of the target.
    pub(super) filesystems: Filesystems,
    trust: Trust,
    /// The first name of each inode with several.
    first_names: RefCell<HashMap<Inode, PathBuf>>,
    /// Entries that are skipped, with everything in them.
    skipped: RefCell<HashSet<PathBuf>>,
    /// Entries that no directory can have: where they are found, and their names.
    refused: RefCell<HashSet<(PathBuf, OsString)>>,
    /// Directories that cannot be read.
    unreadable: RefCell<HashSet<PathBuf>>,
    /// Directories that new entries can be made in.
    open: RefCell<HashSet<PathBuf>>,
    dirs: Cell<u64>,
    /// Files that are written, although the library counts them as there, and their bytes.
    recounted: Cell<(u64, u64)>,
    is_damaged: Cell<bool>,
    failure: RefCell<Option<Error>>,
    has_failed: Cell<bool>,
}

impl<'r> Room<'r> {
    pub(super) fn new(job: &'r Job<'r>) -> Room<'r> {
        Room {
            job,
            filesystems: Filesystems::default(),
            trust: Trust::new(job.options.dry_run),
            first_names: RefCell::default(),
            skipped: RefCell::default(),
            refused: RefCell::default(),
            unreadable: RefCell::default(),
            open: RefCell::default(),
            dirs: Cell::new(0),
            recounted: Cell::new((0, 0)),
            is_damaged: Cell::new(false),
            failure: RefCell::default(),
            has_failed: Cell::new(false),
        }
    }

    /// Before the content: makes room for an entry. Returns whether there is some.
    pub(super) fn prepare(&self, path: &Path, node: &Node) -> bool {
        if self.skips(path) {
            return false;
        }
        let place = self.place(path, node);
        if place.is_ok()
            && let Some(inode) = inode(node)
        {
            self.first_names.borrow_mut().entry(inode).or_insert_with(|| path.to_path_buf());
        }
        self.admits(path, place)
    }

    /// Before the metadata, when the library makes special files. Other names of a file are made here: where the
    /// library cannot make one, it stops. Returns whether the library has to do more.
    pub(super) fn finish(&self, path: &Path, node: &Node) -> bool {
        if self.skips(path) {
            return false;
        }
        let to = self.target(path);
        if self.is_another_name(path, node) {
            let first = inode(node).and_then(|inode| self.first_names.borrow().get(&inode).cloned());
            let linked = first.map_or(Ok(()), |first| link(&self.target(&first), &to));
            self.admits(path, linked);
            return false;
        }
        if node.is_special() {
            return self.admits(path, vacate(&to));
        }
        // The library sets modes by path, and follows links.
        let found = match fs::symlink_metadata(&to) {
            Ok(found) if found.is_dir() == node.is_dir() && found.is_file() == node.is_file() => found,
            Ok(_) => return self.admits(path, Err(exchanged(&to))),
            Err(cause) => return self.admits(path, Err(Error::io("set the metadata of", &to, cause))),
        };
        self.trust.tighten(&to, &found, node);
        // The content of a file is on the disk before the file gets its final time. One that has it was there before.
        let is_confirmed = !node.is_file() || is_same(&found, node);
        self.admits(path, if is_confirmed { Ok(()) } else { self.filesystems.confirm(&to) })
    }

    /// Whether the entry is another name of a file that is restored under its first one.
    pub(super) fn is_another_name(&self, path: &Path, node: &Node) -> bool {
        let names = self.first_names.borrow();
        inode(node).and_then(|inode| names.get(&inode)).is_some_and(|first| first != path)
    }

    fn admits(&self, path: &Path, place: Result<()>) -> bool {
        match place {
            Ok(()) => true,
            Err(error) => {
                self.skip(path, error);
                false
            }
        }
    }

    /// Skips an entry for this reason.
    pub(super) fn skip(&self, path: &Path, error: Error) {
        self.skipped.borrow_mut().insert(path.to_path_buf());
        self.report(error);
    }

    /// Whether the entry, or a directory above, is skipped.
    pub(super) fn skips(&self, path: &Path) -> bool {
        let skipped = self.skipped.borrow();
        !skipped.is_empty() && path.ancestors().any(|above| skipped.contains(above))
    }

    /// Reports a directory that cannot be read.
    pub(super) fn is_unreadable(&self, path: &Path, error: Error) {
        self.unreadable.borrow_mut().insert(path.to_path_buf());
        self.report(error);
    }

    /// Whether nobody tried to read this directory in vain.
    pub(super) fn is_readable(&self, path: &Path) -> bool {
        !self.unreadable.borrow().contains(path)
    }

    /// Reports an entry that no directory can have, once. It is found at this path, or below it.
    pub(super) fn refuse(&self, path: PathBuf, name: OsString, why: &str) {
        let error = damaged(&self.target(&path), why);
        if self.refused.borrow_mut().insert((path, name)) {
            self.report(error);
        }
    }

    fn report(&self, error: Error) {
        self.is_damaged.set(self.is_damaged.get() || error.kind() == ErrorKind::Damage);
        if ends_run(&error) {
            return self.fail(error);
        }
        self.job.store.counts.problem(error);
    }

    /// The run ends with this error.
    pub(super) fn fail(&self, error: Error) {
        self.has_failed.set(true);
        self.failure.borrow_mut().get_or_insert(error);
    }

    /// Whether the run ends.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.get()
    }

    /// The error that the run ends with.
    pub(super) fn failure(&self) -> Option<Error> {
        self.failure.borrow_mut().take()
    }

    /// Directories that were made, or would be.
    pub(super) fn dirs(&self) -> u64 {
        self.dirs.get()
    }

    /// Files that are written, although the library counts them as there, and their bytes.
    pub(super) fn recounted(&self) -> (u64, u64) {
        self.recounted.get()
    }

    /// Whether something in the store is damaged.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged.get()
    }

    /// The place of an entry in the target.
    pub(super) fn target(&self, path: &Path) -> PathBuf {
        self.job.options.target.join(path)
    }

    fn place(&self, path: &Path, node: &Node) -> Result<()> {
        let to = self.target(path);
        let RestoreOptions { dry_run, verify, .. } = *self.job.options;
        let found = match fs::symlink_metadata(&to) {
            Ok(found) => Some(found),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => None,
            // A dry run does not replace the file above.
            Err(cause) if cause.kind() == io::ErrorKind::NotADirectory && dry_run => {
                self.dirs.set(self.dirs.get() + u64::from(node.is_dir()));
                return self.check(node, &to);
            }
            Err(cause) => return Err(Error::io("restore", &to, cause)),
        };
        if node.is_dir() {
            return self.place_dir(&to, found.as_ref());
        }
        let Some(found) = found else {
            self.check(node, &to)?;
            self.check_parent(&to)?;
            return if self.is_another_name(path, node) { Ok(()) } else { self.make(&to, node) };
        };
        if found.is_dir() {
            return Err(in_the_way(&to));
        }
        if !node.is_file() || self.is_another_name(path, node) {
            return removable(&to);
        }
        if !verify && is_same(&found, node) {
            if self.trust.may_stay(&to, &found, node) {
                return Ok(());
            }
            if dry_run {
                self.recount(node.meta.size);
            }
        }
        self.check(node, &to)?;
        if !self.may_be_filled(&to, &found, node) {
            return self.make_anew(&to, node);
        }
        match OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&to) {
            Ok(file) => {
                // After a failed write the kernel keeps the pages as they were written. The library compares what it
                // reads, so it must read what the disk has. A write that fails now makes the sync fail.
                if !dry_run {
                    let _ = direct_io::forget(&file, found.len());
                }
                Ok(())
            }
            Err(cause) if matches!(cause.raw_os_error(), Some(libc::EACCES | libc::ETXTBSY)) => {
                self.make_anew(&to, node)
            }
            Err(cause) => Err(Error::io("replace", &to, cause)),
        }
    }

    /// Whether an existing entry is a file that may get the content of its node.
    pub(super) fn may_be_filled(&self, to: &Path, found: &Metadata, node: &Node) -> bool {
        found.is_file() && self.trust.may_be_filled(to, found, node)
    }

    /// Whether a file has the content of its node, by its size and time, and may get the rest.
    pub(super) fn is_whole(&self, to: &Path, found: &Metadata, node: &Node) -> bool {
        is_same(found, node) && self.trust.may_stay(to, found, node)
    }

    /// Makes a private file. The library would make one that others can read.
    fn make(&self, to: &Path, node: &Node) -> Result<()> {
        if self.job.options.dry_run || !node.is_file() {
            return Ok(());
        }
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
        made.map_err(|cause| Error::io("restore", to, cause))?;
        if node.meta.size == 0 {
            self.recount(0);
        }
        Ok(())
    }

    /// Replaces the existing entry by a private file.
    fn make_anew(&self, to: &Path, node: &Node) -> Result<()> {
        self.remove(to)?;
        self.make(to, node)
    }

    fn recount(&self, bytes: u64) {
        let (files, before) = self.recounted.get();
        self.recounted.set((files + 1, before + bytes));
    }

    fn place_dir(&self, to: &Path, found: Option<&Metadata>) -> Result<()> {
        match found {
            Some(found) if found.is_symlink() && to.is_dir() => return Err(link_in_the_way(to)),
            Some(found) if found.is_dir() => {
                let is_known = self.filesystems.has(found.dev());
                return if is_known || self.job.options.dry_run { Ok(()) } else { self.filesystems.watch(to) };
            }
            Some(_) => self.remove(to)?,
            None => self.check_parent(to)?,
        }
        if !self.job.options.dry_run {
            DirBuilder::new().mode(0o700).create(to).map_err(|cause| Error::io("make", to, cause))?;
        }
        self.dirs.set(self.dirs.get() + 1);
        Ok(())
    }

    fn remove(&self, to: &Path) -> Result<()> {
        if self.job.options.dry_run { removable(to) } else { vacate(to) }
    }

    /// Whether the index has all content of a file.
    fn check(&self, node: &Node, to: &Path) -> Result<()> {
        let mut content = node.content.iter().flatten();
        match content.all(|id| self.job.repository.get_index_entry(id).is_ok()) {
            true => Ok(()),
            false => Err(damaged(to, "the index of the store lacks some of its data")),
        }
    }

    /// Whether a new entry can be made in the directory above.
    fn check_parent(&self, to: &Path) -> Result<()> {
        let Some(parent) = to.parent().filter(|parent| !self.open.borrow().contains(*parent)) else { return Ok(()) };
        match access(parent, Access::WRITE_OK | Access::EXEC_OK).map_err(io::Error::from) {
            Ok(()) => {
                self.open.borrow_mut().insert(parent.to_path_buf());
                Ok(())
            }
            // A dry run does not make it.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound && self.job.options.dry_run => Ok(()),
            Err(cause) => Err(Error::io("restore", to, cause)),
        }
    }
}

/// The inode of a file with several names.
pub(super) fn inode(node: &Node) -> Option<Inode> {
    let inode = (node.meta.device_id, node.meta.inode);
    (node.is_file() && node.meta.links > 1 && inode.0 != 0 && inode.1 != 0).then_some(inode)
}

/// Whether a file has the size and time of its node. Empty files with one name need no time.
fn is_same(found: &Metadata, node: &Node) -> bool {
    let mtime = found.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
    let is_empty = node.meta.size == 0 && found.nlink() == 1;
    found.is_file() && found.len() == node.meta.size && (is_empty || mtime == node.meta.mtime)
}

//! One emptying of a trash directory: the deletion of its entries, and of each directory below.

use super::directory::{Directory, Limits};
use super::entry::{allow_all, is_dir, is_dot, open_for_deletion, refused};
use super::fresh_names::FreshNames;
use super::guard::{Guard, busy};
use super::in_place::{self, Kept};
use super::options::{Options, Stats};
use crate::error::Error;
use crate::fs::filesystem::Kind;
use crate::fs::openat;
use crate::monitor::{Amount, Monitor};
use crate::sys::btrfs::{logical::ROOT_DIRECTORY, subvolume};
use crate::util::mutex::lock;
use rustix::fs::{self, AtFlags, FileType};
use rustix::io::{Errno, Result};
use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Empties another directory as a trash of its own.
type Empty = fn(BorrowedFd<'_>, &Path, &Options, &dyn Monitor) -> crate::error::Result<Stats>;

pub(super) struct Run<'a> {
    trash: BorrowedFd<'a>,
    path: &'a Path,
    options: &'a Options,
    monitor: &'a dyn Monitor,
    is_btrfs: bool,
    fresh: FreshNames,
    guard: Guard<'a>,
    limits: Limits,
    empty: Empty,
    /// Entries of the trash that could not be deleted.
    pub stuck: Mutex<HashSet<CString>>,
    /// Entries of the trash that were listed, but not found.
    missing: Mutex<HashSet<CString>>,
    pub dirs: AtomicU64,
    pub files: AtomicU64,
    pub errors: AtomicU64,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        limits: Limits,
        trash: BorrowedFd<'a>,
        path: &'a Path,
        options: &'a Options,
        monitor: &'a dyn Monitor,
        empty: Empty,
    ) -> Run<'a> {
        Run {
            trash,
            path,
            options,
            monitor,
            is_btrfs: Kind::of(trash).is_ok_and(|kind| kind == Kind::Btrfs),
            fresh: FreshNames::new(),
            guard: Guard::new(trash),
            limits,
            empty,
            stuck: Mutex::default(),
            missing: Mutex::default(),
            dirs: AtomicU64::new(0),
            files: AtomicU64::new(0),
            errors: AtomicU64::new(0),
        }
    }

    /// Deletes an entry of the trash. Returns it if it is a directory: that is still to be emptied.
    pub(super) fn start(&self, inode: u64, name: CString) -> Option<Arc<Directory<'a>>> {
        if self.monitor.is_cancelled() {
            return None;
        }
        let problem = match self.delete_file(self.trash, &name, FileType::Unknown) {
            Ok(true) => return None,
            // Somebody else may have deleted it. On a damaged filesystem it is listed again, for ever.
            Ok(false) if lock(&self.missing).insert(name.clone()) => return None,
            Ok(false) => refused(&self.path.join(os(&name)), Errno::NOENT),
            Err(Errno::ISDIR) => match self.guard.mount_at(name.to_bytes()) {
                None => return Some(Arc::new(Directory::new(self.trash, None, name, inode))),
                Some(point) => busy(&self.path.join(os(&name)), &point),
            },
            Err(errno) => refused(&self.path.join(os(&name)), errno),
        };
        self.report(&problem);
        lock(&self.stuck).insert(name);
        None
    }

    /// Deletes everything in a directory except subdirectories with entries, which are returned. If there are none, the
    /// directory goes too, and each directory above in which nothing waits any more.
    pub(super) fn empty(&self, directory: Arc<Directory<'a>>) -> Vec<Arc<Directory<'a>>> {
        if self.monitor.is_cancelled() {
            return Vec::new();
        }
        match self.clear(&directory) {
            Ok(found) if !found.is_empty() => return found,
            Ok(_) => {}
            Err(errno) => {
                self.keep(&directory, &refused(&directory.path(self.path), errno));
            }
        }
        self.finish(directory).into_iter().collect()
    }

    /// Deletes the files of a directory and returns its subdirectories.
    fn clear(&self, directory: &Arc<Directory<'a>>) -> Result<Vec<Arc<Directory<'a>>>> {
        if self.is_btrfs && self.is_deleted_subvolume(directory)? {
            return Ok(Vec::new());
        }
        let opened = match directory.fd.get() {
            Some(_) => None,
            None => Some(open_for_deletion(directory.above(), &directory.name)?),
        };
        let Some(fd) = opened.as_ref().or(directory.fd.get()) else { return Err(Errno::BADF) };
        let mut stays_open = opened.is_none();
        let mut found = Vec::new();
        for entry in fs::Dir::read_from(fd)? {
            let (name, inode, kind) = match &entry {
                Ok(entry) => (entry.file_name(), entry.ino(), entry.file_type()),
                Err(errno) => {
                    self.keep(directory, &Error::io("read the directory", directory.path(self.path), *errno));
                    break;
                }
            };
            if is_dot(name) {
                continue;
            }
            let result = match self.delete_file(fd.as_fd(), name, kind) {
                Err(Errno::ISDIR) if self.may_wait(&mut stays_open) => {
                    found.push(Directory::new(self.trash, Some(Arc::clone(directory)), name.to_owned(), inode));
                    continue;
                }
                Err(Errno::ISDIR) => self.move_up(directory, fd.as_fd(), name).map(|()| true),
                result => result,
            };
            match result {
                Ok(true) => directory.shrank.store(true, Ordering::Relaxed),
                Ok(false) => {}
                // The entries that are still in it were reported.
                Err(Errno::NOTEMPTY) => directory.keeps.store(true, Ordering::Relaxed),
                Err(errno) => self.keep(directory, &refused(&directory.path(self.path).join(os(name)), errno)),
            }
        }
        directory.waiting.store(found.len(), Ordering::Relaxed);
        match opened {
            Some(opened) if !found.is_empty() => directory.fd.set(opened).unwrap_or_default(),
            Some(_) if stays_open => self.limits.close(),
            _ => {}
        }
        Ok(found.into_iter().map(Arc::new).collect())
    }

    /// Whether one more subdirectory may wait, in a directory that therefore stays open.
    fn may_wait(&self, stays_open: &mut bool) -> bool {
        *stays_open = *stays_open || self.limits.open();
        *stays_open && self.limits.know()
    }

    /// Deletes an entry that is not a directory; otherwise fails with `ISDIR`. Returns `false` if it does not exist.
    fn delete_file(&self, dir: BorrowedFd<'_>, name: &CStr, kind: FileType) -> Result<bool> {
        if kind == FileType::Directory {
            return Err(Errno::ISDIR);
        }
        match fs::unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) => {
                self.count(&self.files);
                Ok(true)
            }
            Err(Errno::NOENT) => Ok(false),
            // POSIX allows this error for directories. Linux also returns it for immutable files.
            Err(Errno::PERM) if kind == FileType::Unknown && is_dir(dir, name) => Err(Errno::ISDIR),
            Err(errno) => Err(errno),
        }
    }

    /// Renames a subdirectory into the trash, for a later batch.
    fn move_up(&self, directory: &Directory<'_>, dir: BorrowedFd<'_>, name: &CStr) -> Result<()> {
        if self.guard.mount_at(directory.top().to_bytes()).is_some() {
            return Err(Errno::BUSY);
        }
        let path = || directory.path(self.path).join(os(name));
        match self.fresh.rename(dir, name.to_bytes(), self.trash) {
            Err(Errno::ACCESS) => {
                // Moving a directory changes its `..`, so its owner must be allowed to write it.
                allow_all(dir, name)?;
                self.fresh.rename(dir, name.to_bytes(), self.trash)
            }
            // Nothing can be renamed out of a subvolume, so the subdirectory is a trash of its own.
            Err(Errno::XDEV) => self.empty_separately(dir, name, &path()),
            // The trash cannot grow on a full filesystem. Deleting frees space, so this happens to few directories.
            Err(Errno::NOSPC | Errno::DQUOT) => {
                match in_place::delete(dir, name.to_bytes(), &path(), &in_place::Mounts::default(), None, self.monitor)
                {
                    Ok(()) => {
                        self.count(&self.dirs);
                        Ok(())
                    }
                    Err(Kept::Whole(error)) => {
                        self.report(&error);
                        Err(Errno::NOTEMPTY)
                    }
                    Err(Kept::Partly | Kept::Spared) => Err(Errno::NOTEMPTY),
                    Err(Kept::Interrupted) => Ok(()),
                }
            }
            done => done,
        }
    }

    fn empty_separately(&self, dir: BorrowedFd<'_>, name: &CStr, path: &Path) -> Result<()> {
        let opened = open_for_deletion(dir, name)?;
        let options = Options { threads: None, ..*self.options };
        let gone = (self.empty)(opened.as_fd(), path, &options, self.monitor).map_err(|_| Errno::NOTEMPTY)?;
        self.files.fetch_add(gone.files, Ordering::Relaxed);
        self.dirs.fetch_add(gone.dirs, Ordering::Relaxed);
        self.errors.fetch_add(gone.errors, Ordering::Relaxed);
        fs::unlinkat(dir, name, AtFlags::REMOVEDIR)?;
        self.count(&self.dirs);
        Ok(())
    }

    /// Deletes a directory if it is a Btrfs subvolume and one call can do so. If one call cannot, it becomes writable,
    /// to be emptied.
    fn is_deleted_subvolume(&self, directory: &Directory<'_>) -> Result<bool> {
        let (above, name) = (directory.above(), directory.name.as_c_str());
        if fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW)?.st_ino != ROOT_DIRECTORY {
            return Ok(false);
        }
        if !self.options.subvolumes {
            let error = Error::failed("delete").at(directory.path(self.path));
            self.keep(directory, &error.hint("it is a Btrfs subvolume, so it was kept; see btrfs-subvolume(8)"));
            return Ok(true);
        }
        match subvolume::destroy(above, name.to_bytes()) {
            Ok(()) => {
                self.count(&self.dirs);
                Ok(true)
            }
            Err(Errno::NOENT) => Ok(true),
            // It contains another subvolume, or there is no permission to delete it in one call.
            Err(Errno::NOTEMPTY | Errno::PERM | Errno::ACCESS | Errno::ROFS) => {
                subvolume::set_read_only(openat::open_subdir(above, name)?, false)?;
                Ok(false)
            }
            Err(Errno::INVAL | Errno::NOTTY | Errno::OPNOTSUPP) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Deletes an emptied directory, and each directory above in which nothing waits any more. Returns one that has
    /// entries after all: a listing may miss entries while others are being deleted.
    fn finish(&self, mut directory: Arc<Directory<'a>>) -> Option<Arc<Directory<'a>>> {
        loop {
            if !directory.keeps.load(Ordering::Relaxed) {
                match fs::unlinkat(directory.above(), &directory.name, AtFlags::REMOVEDIR) {
                    Ok(()) => self.count(&self.dirs),
                    Err(Errno::NOENT) => {}
                    Err(Errno::NOTEMPTY | Errno::EXIST) if directory.shrank.swap(false, Ordering::Relaxed) => {
                        return Some(directory);
                    }
                    Err(errno) => self.keep(&directory, &refused(&directory.path(self.path), errno)),
                }
            }
            self.limits.release(&directory);
            let keeps = directory.keeps.load(Ordering::Relaxed);
            let Some(parent) = &directory.parent else {
                if keeps {
                    lock(&self.stuck).insert(directory.name.clone());
                }
                return None;
            };
            let effect = if keeps { &parent.keeps } else { &parent.shrank };
            effect.store(true, Ordering::Relaxed);
            if parent.waiting.fetch_sub(1, Ordering::AcqRel) > 1 {
                return None;
            }
            directory = Arc::clone(parent);
        }
    }

    fn count(&self, counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
        self.monitor.advance(Amount { files: 1, bytes: 0 });
    }

    /// Reports why a directory, or an entry of it, stays.
    fn keep(&self, directory: &Directory<'_>, error: &Error) {
        directory.keeps.store(true, Ordering::Relaxed);
        self.report(error);
    }

    fn report(&self, error: &Error) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.monitor.problem(error);
    }
}

fn os(name: &CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}

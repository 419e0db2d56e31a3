//! Empties a trash directory in parallel: trees of any depth, without following a link.
//!
//! It does not recurse: it renames the subdirectories of a directory up into the trash before it removes the directory.
//! So it needs no memory for depth, and a killed run leaves a trash that the next run empties like any other. One call
//! deletes a Btrfs subvolume, but only if the caller allows it: in a repository's trash, subvolumes are trees of
//! snapshots; elsewhere they may belong to anyone.
//!
//! Renaming a directory moves everything mounted in it. So an entry of the trash that is or contains a mount point is
//! kept whole and reported.

use super::entry::{allow_all, is_dir, is_dot, open_for_deletion};
use super::fresh_names::FreshNames;
use super::guard::{Guard, busy};
use super::in_place;
use crate::error::{Error, Result};
use crate::fs::openat;
use crate::monitor::{Amount, Monitor};
use crate::sys::btrfs::{logical::ROOT_DIRECTORY, subvolume};
use rayon::prelude::*;
use rustix::fs::{self, AtFlags, FileType};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// How many entries of the trash are distributed to threads at once.
const BATCH: usize = 4096;

/// How to empty a trash.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// The number of threads; by default that of the calling pool.
    pub threads: Option<usize>,
    /// Whether Btrfs subvolumes are deleted too, including read-only ones. Otherwise they are kept and reported as
    /// errors.
    pub subvolumes: bool,
}

/// The number of deleted entries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stats {
    /// Directories.
    pub dirs: u64,
    /// Everything else.
    pub files: u64,
    /// Entries that could not be deleted and are still there; each was reported to the monitor.
    pub errors: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// Deletes everything in the directory `trash`, which must be on one filesystem. `path` is for messages.
///
/// # Errors
/// If the trash cannot be read, or the run is cancelled. Entries that cannot be deleted are counted and reported to the
/// monitor.
pub(crate) fn empty(trash: BorrowedFd<'_>, path: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let started = Instant::now();
    let run = Run {
        trash,
        path,
        options,
        monitor,
        fresh: FreshNames::new(),
        guard: Guard::new(trash),
        dirs: AtomicU64::new(0),
        files: AtomicU64::new(0),
        errors: AtomicU64::new(0),
    };
    let mut stuck = HashSet::new();
    let mut work = || loop {
        let batch = run.batch(&stuck)?;
        if batch.is_empty() {
            return Ok(());
        }
        stuck.par_extend(batch.into_par_iter().filter(|name| !run.delete(name)));
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
    };
    match options.threads {
        Some(threads) => rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|_| Error::failed("start the threads that empty").at(path))?
            .install(work)?,
        None => work()?,
    }
    Ok(Stats {
        dirs: run.dirs.into_inner(),
        files: run.files.into_inner(),
        errors: run.errors.into_inner(),
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Deletes the directory `name` of `parent` with everything in it. Nothing is renamed out of it. Returns `false` if
/// there is no directory with that name. `path` is for messages.
///
/// # Errors
/// If any entry of it cannot be deleted.
pub(crate) fn directory(parent: BorrowedFd<'_>, name: &[u8], path: &Path, monitor: &dyn Monitor) -> Result<bool> {
    let failed = |errno| Error::io("delete", path, errno);
    let name = CString::new(name).map_err(|_| failed(Errno::INVAL))?;
    loop {
        match fs::unlinkat(parent, &name, AtFlags::REMOVEDIR) {
            Ok(()) => return Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(false),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let dir = match open_for_deletion(parent, &name) {
            Ok(dir) => dir,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(false),
            Err(errno) => return Err(failed(errno)),
        };
        if empty(dir.as_fd(), path, &Options::default(), &Uncounted(monitor))?.errors > 0 {
            return Err(failed(Errno::NOTEMPTY));
        }
    }
}

/// A monitor that ignores progress, for a deletion that is only part of other work.
struct Uncounted<'a>(&'a dyn Monitor);

impl Monitor for Uncounted<'_> {
    fn problem(&self, error: &Error) {
        self.0.problem(error);
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

struct Run<'a> {
    trash: BorrowedFd<'a>,
    path: &'a Path,
    options: &'a Options,
    monitor: &'a dyn Monitor,
    fresh: FreshNames,
    guard: Guard<'a>,
    dirs: AtomicU64,
    files: AtomicU64,
    errors: AtomicU64,
}

impl Run<'_> {
    /// Some entries of the trash, except those that could not be deleted before. They are in the order of their inodes,
    /// and rayon gives each thread a part without gaps. So on XFS threads work in different allocation groups, each on
    /// neighbouring inodes: they rarely wait for each other, and the log takes half the space.
    fn batch(&self, stuck: &HashSet<CString>) -> Result<Vec<CString>> {
        let failed = |errno| Error::io("read the directory", self.path, errno);
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(self.trash).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if !is_dot(name) && !stuck.contains(name) {
                names.push((entry.ino(), name.to_owned()));
                if names.len() == BATCH {
                    break;
                }
            }
        }
        names.sort_unstable();
        Ok(names.into_iter().map(|(_, name)| name).collect())
    }

    /// Deletes an entry of the trash. Its subdirectories may become entries of the trash first.
    fn delete(&self, name: &CStr) -> bool {
        if self.monitor.is_cancelled() {
            return true; // Not stuck: the run ends here.
        }
        let path = self.path.join(OsStr::from_bytes(name.to_bytes()));
        match fs::unlinkat(self.trash, name, AtFlags::empty()) {
            Ok(()) => return self.count(&self.files),
            Err(Errno::NOENT) => return true,
            Err(Errno::ISDIR) => {}
            // POSIX allows this error for directories. Linux also returns it for immutable files.
            Err(Errno::PERM) if is_dir(self.trash, name) => {}
            Err(errno) => return self.fail("delete", path, errno),
        }
        if let Some(point) = self.guard.mount_at(name.to_bytes()) {
            return self.problem(&busy(&path, &point));
        }
        match self.empty_directory(name, &path) {
            Ok(()) => self.count(&self.dirs),
            Err(errno) => self.fail("delete", path, errno),
        }
    }

    fn empty_directory(&self, name: &CStr, path: &Path) -> rustix::io::Result<()> {
        match fs::unlinkat(self.trash, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            done => return done,
        }
        if let Some(done) = self.subvolume(self.trash, name, path) {
            return done;
        }
        let dir = open_for_deletion(self.trash, name)?;
        loop {
            let (mut gone, mut failed) = (0_u64, 0_u64);
            for entry in fs::Dir::read_from(&dir)? {
                let entry = entry?;
                if is_dot(entry.file_name()) {
                    continue;
                }
                match self.take_out(name, dir.as_fd(), entry.file_name(), entry.file_type(), path) {
                    Ok(()) => gone += 1,
                    Err(errno) => {
                        failed += 1;
                        self.fail("delete", path.join(OsStr::from_bytes(entry.file_name().to_bytes())), errno);
                    }
                }
            }
            match fs::unlinkat(self.trash, name, AtFlags::REMOVEDIR) {
                // A listing may miss entries while others are being removed, so look again.
                Err(Errno::NOTEMPTY | Errno::EXIST) if gone > 0 && failed == 0 => {}
                done => return done,
            }
        }
    }

    /// Removes an entry from a directory, which is in the entry `top` of the trash: deletes a file, or renames a
    /// directory into the trash.
    fn take_out(
        &self,
        top: &CStr,
        dir: BorrowedFd<'_>,
        name: &CStr,
        kind: FileType,
        path: &Path,
    ) -> rustix::io::Result<()> {
        if kind != FileType::Directory {
            match fs::unlinkat(dir, name, AtFlags::empty()) {
                Ok(()) => {
                    self.count(&self.files);
                    return Ok(());
                }
                Err(Errno::NOENT) => return Ok(()),
                Err(Errno::ISDIR) => {}
                Err(Errno::PERM) if kind == FileType::Unknown && is_dir(dir, name) => {}
                Err(errno) => return Err(errno),
            }
        }
        // Most directories of a tree are leaves with few entries. An empty one can be deleted without moving it.
        match fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Ok(()) => {
                self.count(&self.dirs);
                return Ok(());
            }
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        if let Some(done) = self.subvolume(dir, name, &path.join(OsStr::from_bytes(name.to_bytes()))) {
            return done.inspect(|()| {
                self.count(&self.dirs);
            });
        }
        if self.guard.mount_at(top.to_bytes()).is_some() {
            return Err(Errno::BUSY);
        }
        match self.fresh.rename(dir, name.to_bytes(), self.trash) {
            Err(Errno::ACCESS) => {
                // Moving a directory changes its `..`, so its owner must be allowed to write it.
                allow_all(dir, name)?;
                self.fresh.rename(dir, name.to_bytes(), self.trash)
            }
            // The trash cannot grow on a full filesystem. Deleting frees space, so this happens to few directories.
            Err(Errno::NOSPC | Errno::DQUOT) => {
                let path = path.join(OsStr::from_bytes(name.to_bytes()));
                match in_place::delete(dir, name.to_bytes(), &path, &in_place::Mounts::default(), self.monitor) {
                    Ok(()) => {
                        self.count(&self.dirs);
                        Ok(())
                    }
                    Err(in_place::Kept::Whole(error)) => {
                        self.problem(&error);
                        Err(Errno::NOTEMPTY)
                    }
                    Err(in_place::Kept::Partly) => Err(Errno::NOTEMPTY),
                    Err(in_place::Kept::Interrupted) => Err(Errno::INTR),
                }
            }
            done => done,
        }
    }

    /// Deletes a directory if it is a Btrfs subvolume with entries. Returns `None` if it is not a subvolume.
    fn subvolume(&self, dir: BorrowedFd<'_>, name: &CStr, path: &Path) -> Option<rustix::io::Result<()>> {
        let stat = fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if !self.options.subvolumes || stat.st_ino != ROOT_DIRECTORY {
            return None;
        }
        match subvolume::destroy(dir, name.to_bytes()) {
            Ok(()) | Err(Errno::NOENT) => Some(Ok(())),
            Err(Errno::INVAL | Errno::NOTTY | Errno::OPNOTSUPP) => None,
            // The subvolume contains another one, or there is no permission to delete it in one call. So its entries
            // are deleted first, then its root as a directory.
            Err(Errno::NOTEMPTY | Errno::PERM | Errno::ACCESS | Errno::ROFS) => {
                Some(self.delete_by_entries(dir, name, path))
            }
            Err(errno) => Some(Err(errno)),
        }
    }

    /// Deletes a subvolume entry by entry: its entries cannot be renamed out of it.
    fn delete_by_entries(&self, parent: BorrowedFd<'_>, name: &CStr, path: &Path) -> rustix::io::Result<()> {
        subvolume::set_read_only(openat::open_subdir(parent, name)?, false)?;
        let dir = open_for_deletion(parent, name)?;
        let options = Options { threads: None, subvolumes: true };
        let gone = empty(dir.as_fd(), path, &options, self.monitor).map_err(|_| Errno::NOTEMPTY)?;
        self.files.fetch_add(gone.files, Ordering::Relaxed);
        self.dirs.fetch_add(gone.dirs, Ordering::Relaxed);
        self.errors.fetch_add(gone.errors, Ordering::Relaxed);
        fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
    }

    fn count(&self, counter: &AtomicU64) -> bool {
        counter.fetch_add(1, Ordering::Relaxed);
        self.monitor.advance(Amount { files: 1, bytes: 0 });
        true
    }

    fn fail(&self, action: &str, path: PathBuf, errno: Errno) -> bool {
        // The entry that is still in the directory was reported already.
        if matches!(errno, Errno::NOTEMPTY | Errno::EXIST) {
            return false;
        }
        let error = Error::io(action, path, errno);
        self.problem(&match errno {
            Errno::PERM if rustix::process::geteuid().is_root() => error.hint("it may be immutable: see lsattr(1)"),
            Errno::BUSY => error.hint("something is mounted there; unmount it first"),
            _ => error,
        })
    }

    fn problem(&self, error: &Error) -> bool {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.monitor.problem(error);
        false
    }
}

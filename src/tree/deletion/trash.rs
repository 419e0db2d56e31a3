//! Empties a trash directory in parallel: trees of any depth, without following a link or crossing a mount.
//!
//! It takes a batch of the trash's entries and goes down into all of them at once, level by level. A level is all known
//! directories of one depth: their files are deleted, and their subdirectories are the next level. A directory goes
//! when its last subdirectory has gone. The number of directories that are known or open at a time is bounded; further
//! ones are renamed up into the trash, so they belong to a later batch. A killed run leaves a trash that the next run
//! empties like any other.
//!
//! One call deletes a Btrfs subvolume, but only if the caller allows it: in a repository's trash, subvolumes are trees
//! of snapshots; elsewhere they may belong to anyone.
//!
//! Renaming a directory moves everything mounted in it. So an entry of the trash that is or contains a mount point is
//! kept whole and reported.

use super::directory::Limits;
use super::entry::{is_dot, open_for_deletion};
use super::lanes::Lanes;
use super::options::{Options, Stats};
use super::run::Run;
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::util::mutex::lock;
use crate::util::pool;
use rustix::fs::{self, AtFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Instant;

/// The most entries of the trash in a batch.
const BATCH: usize = 4096;

/// Deletes everything in the directory `trash`, which must be on one filesystem. `path` is for messages.
///
/// # Errors
/// If the trash cannot be read, or the run is cancelled. Entries that cannot be deleted are counted and reported to the
/// monitor.
pub(crate) fn empty(trash: BorrowedFd<'_>, path: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    empty_within(Limits::new(), trash, path, options, monitor)
}

/// The same with these limits.
pub(super) fn empty_within(
    limits: Limits,
    trash: BorrowedFd<'_>,
    path: &Path,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<Stats> {
    let started = Instant::now();
    let run = Run::new(limits, trash, path, options, monitor, empty);
    let lanes = Lanes::new(trash, options.threads.unwrap_or_else(pool::threads));
    let work = || loop {
        let batch = batch(trash, path, &run)?;
        if batch.is_empty() {
            return Ok(());
        }
        let begun = pool::map(batch, |(inode, name)| run.start(inode, name));
        let mut level: Vec<_> = begun.into_iter().flatten().collect();
        while !level.is_empty() {
            let below = pool::map_in_parts(lanes.distribute(level), 1, |lane| {
                lane.into_iter().flat_map(|directory| run.empty(directory)).collect::<Vec<_>>()
            });
            level = below.into_iter().flatten().collect();
        }
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
    };
    match options.threads {
        Some(_) => {
            lanes.pool().map_err(|_| Error::failed("start the threads that empty").at(path))?.install(work)?;
        }
        None => work()?,
    }
    Ok(Stats {
        dirs: run.dirs.into_inner(),
        files: run.files.into_inner(),
        errors: run.errors.into_inner(),
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Some entries of the trash in the order of their inodes, except those that could not be deleted before.
fn batch(trash: BorrowedFd<'_>, path: &Path, run: &Run<'_>) -> Result<Vec<(u64, CString)>> {
    let failed = |errno| Error::io("read the directory", path, errno);
    let stuck = lock(&run.stuck);
    let mut names = Vec::new();
    for entry in fs::Dir::read_from(trash).map_err(failed)? {
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
    Ok(names)
}

/// Deletes the directory `name` of `parent` with everything in it, on the threads of the calling pool, or outside of a
/// pool on the calling thread: it needs no thread that may not start. Nothing is renamed out of it. Returns `false` if
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

//! The files that are copied, and their copies, in a directory of the run's own. It is removed at the end of the run.
//!
//! A killed run leaves its directory behind. The next run on the same directory sees that nobody holds its lock, and
//! removes it.

use crate::fs::pread;
use crate::fs::status::Status;
use crate::probe::place::Place;
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// The prefix of such a directory's name, before the number of the process.
const PREFIX: &str = ".pleach-bench.";
const LARGE: &str = "large";
const COPY: &str = "copy";
const SMALL: &str = "small";
const COPIES: &str = "copies";

/// The directory, with one large file and many small ones in it.
pub(super) struct Scratch {
    /// Locked for the duration of the run.
    dir: OwnedFd,
    /// Its path, through the descriptor of its parent directory.
    path: PathBuf,
    small: OwnedFd,
    copies: OwnedFd,
    names: Vec<String>,
}

impl Scratch {
    /// Creates the directory, empty, and removes those that killed runs have left.
    pub(super) fn create(place: &Place, files: u64) -> Result<Scratch> {
        /// More than enough, unless somebody creates such names on purpose.
        const ATTEMPTS: u32 = 16;
        remove_abandoned(place);
        let process = rustix::process::getpid().as_raw_nonzero();
        for attempt in 0..ATTEMPTS {
            match Scratch::make(place, &format!("{PREFIX}{process}.{attempt}"), files) {
                // The name is taken, or a concurrent run considered the directory abandoned before it was locked.
                Err(Errno::EXIST | Errno::NOENT | Errno::AGAIN) => {}
                made => return made,
            }
        }
        Err(Errno::EXIST)
    }

    fn make(place: &Place, name: &str, files: u64) -> Result<Scratch> {
        let path = through(place, name);
        rustix::fs::mkdirat(place, name, Mode::RWXU)?;
        let made = || -> Result<(OwnedFd, OwnedFd, OwnedFd)> {
            let dir = open_dir(place, name)?;
            rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive)?;
            for below in [SMALL, COPIES] {
                rustix::fs::mkdirat(&dir, below, Mode::RWXU)?;
            }
            let (small, copies) = (open_dir(&dir, SMALL)?, open_dir(&dir, COPIES)?);
            Ok((dir, small, copies))
        };
        let (dir, small, copies) = made().inspect_err(|_| drop(std::fs::remove_dir_all(&path)))?;
        let names = (0..files).map(|number| format!("{number:05}")).collect();
        Ok(Scratch { dir, path, small, copies, names })
    }

    /// Creates the large file from whole pieces of content; `go_on` is called between them.
    pub(super) fn fill_large(&self, size: u64, piece: &[u8], mut go_on: impl FnMut(u64) -> Result<()>) -> Result<()> {
        let file = create(&self.dir, LARGE)?;
        let mut at = 0;
        while at < size {
            pread::write_all(&file, piece, at)?;
            at += piece.len() as u64;
            go_on(piece.len() as u64)?;
        }
        rustix::fs::fsync(&file)
    }

    /// Creates the small files, each with a different part of the content.
    pub(super) fn fill_small(
        &self,
        each: usize,
        content: &[u8],
        mut go_on: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        for (name, part) in self.names.iter().zip(content.windows(each).step_by(16).cycle()) {
            pread::write_all(create(&self.small, name)?, part, 0)?;
            go_on(each as u64)?;
        }
        rustix::fs::syncfs(&self.dir)
    }

    /// The large file, and its status.
    pub(super) fn large(&self) -> Result<(OwnedFd, Status)> {
        open(&self.dir, LARGE)
    }

    /// A new file for the copy of the large one.
    pub(super) fn new_copy(&self) -> Result<OwnedFd> {
        create(&self.dir, COPY)
    }

    /// The names of the small files, and of their copies.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// A small file, and its status.
    pub(super) fn small(&self, name: &str) -> Result<(OwnedFd, Status)> {
        open(&self.small, name)
    }

    /// A new file for the copy of a small one.
    pub(super) fn new_small_copy(&self, name: &str) -> Result<OwnedFd> {
        create(&self.copies, name)
    }

    /// The directory of the small files.
    pub(super) fn small_dir(&self) -> BorrowedFd<'_> {
        self.small.as_fd()
    }

    /// Writes out all data of this filesystem that is still in memory.
    pub(super) fn sync(&self) -> Result<()> {
        rustix::fs::syncfs(&self.dir)
    }

    /// Removes all copies and writes the removal out, so that no later run pays for it.
    pub(super) fn clear(&self) -> Result<()> {
        let gone = |removed: Result<()>| match removed {
            Err(Errno::NOENT) => Ok(()),
            other => other,
        };
        gone(rustix::fs::unlinkat(&self.dir, COPY, AtFlags::empty()))?;
        for name in &self.names {
            gone(rustix::fs::unlinkat(&self.copies, &**name, AtFlags::empty()))?;
        }
        self.sync()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If some files cannot be removed now, the next run finds the directory abandoned and removes them.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A path to an entry of the directory that stays valid even if the directory is renamed.
fn through(place: &Place, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", place.as_fd().as_raw_fd()))
}

fn open_dir(dir: impl AsFd, name: &str) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty())
}

fn open(dir: impl AsFd, name: &str) -> Result<(OwnedFd, Status)> {
    let file = rustix::fs::openat(dir, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let status = Status::of(&file)?;
    Ok((file, status))
}

fn create(dir: impl AsFd, name: &str) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR)
}

/// Removes the directories of this user's runs that no longer hold a lock.
fn remove_abandoned(place: &Place) {
    let Ok(entries) = Dir::read_from(place) else { return };
    for entry in entries.flatten() {
        let Some(name) = entry.file_name().to_str().ok().filter(|name| name.starts_with(PREFIX)) else { continue };
        let Ok(dir) = open_dir(place, name) else { continue };
        let is_mine = rustix::fs::fstat(&dir).is_ok_and(|stat| stat.st_uid == rustix::process::geteuid().as_raw());
        if is_mine && rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_dir_all(through(place, name));
        }
    }
}

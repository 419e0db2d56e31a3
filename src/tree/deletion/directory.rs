//! A directory that is being emptied, its place, and the limits on how many of them are known and open.

use super::lanes::Waiting;
use crate::fs::open_files;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The most subdirectories that are known at a time: with names of usual length, 10 MiB.
const MOST_KNOWN: usize = 1 << 16;

/// A directory in the trash, at any depth.
#[derive(Debug)]
pub(super) struct Directory<'a> {
    trash: BorrowedFd<'a>,
    /// `None`: it is an entry of the trash itself.
    pub parent: Option<Arc<Directory<'a>>>,
    pub name: CString,
    inode: u64,
    /// Only open while subdirectories wait.
    pub fd: OnceLock<OwnedFd>,
    /// The subdirectories that wait.
    pub waiting: AtomicUsize,
    /// An entry was deleted, or moved away, since the last look at it.
    pub shrank: AtomicBool,
    /// An entry could not be deleted.
    pub keeps: AtomicBool,
}

impl<'a> Directory<'a> {
    pub(super) fn new(
        trash: BorrowedFd<'a>,
        parent: Option<Arc<Directory<'a>>>,
        name: CString,
        inode: u64,
    ) -> Directory<'a> {
        Directory {
            trash,
            parent,
            name,
            inode,
            fd: OnceLock::new(),
            waiting: AtomicUsize::new(0),
            shrank: AtomicBool::new(false),
            keeps: AtomicBool::new(false),
        }
    }

    /// The directory that contains it.
    pub(super) fn above(&self) -> BorrowedFd<'_> {
        self.parent.as_ref().and_then(|parent| parent.fd.get()).map_or(self.trash, AsFd::as_fd)
    }

    /// The entry of the trash in which it is.
    pub(super) fn top(&self) -> &CStr {
        let mut top = self;
        while let Some(parent) = &top.parent {
            top = parent;
        }
        &top.name
    }

    /// Its path, for messages.
    pub(super) fn path(&self, trash: &Path) -> PathBuf {
        let mut names = vec![&self.name];
        let mut above = &self.parent;
        while let Some(parent) = above {
            names.push(&parent.name);
            above = &parent.parent;
        }
        names.iter().rev().fold(trash.to_path_buf(), |path, name| path.join(OsStr::from_bytes(name.to_bytes())))
    }
}

impl Waiting for Arc<Directory<'_>> {
    fn inode(&self) -> u64 {
        self.inode
    }

    fn place(&self) -> (BorrowedFd<'_>, &CStr) {
        (self.above(), &self.name)
    }
}

/// How many more directories may be known and open.
#[derive(Debug)]
pub(super) struct Limits {
    known: AtomicUsize,
    open: AtomicUsize,
}

impl Limits {
    pub(super) fn new() -> Limits {
        Limits::of(MOST_KNOWN, open_files::part(4, 16..=4096))
    }

    pub(super) fn of(known: usize, open: usize) -> Limits {
        Limits { known: AtomicUsize::new(known), open: AtomicUsize::new(open) }
    }

    /// Takes a place for a directory that waits. Returns `false` if there is none.
    pub(super) fn know(&self) -> bool {
        take(&self.known)
    }

    /// Takes a place for a directory that stays open. Returns `false` if there is none.
    pub(super) fn open(&self) -> bool {
        take(&self.open)
    }

    /// Gives back a place that [`Limits::open`] gave.
    pub(super) fn close(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives back the places of a directory that is done.
    pub(super) fn release(&self, directory: &Directory<'_>) {
        if directory.parent.is_some() {
            self.known.fetch_add(1, Ordering::Relaxed);
        }
        if directory.fd.get().is_some() {
            self.close();
        }
    }
}

fn take(places: &AtomicUsize) -> bool {
    places.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |places| places.checked_sub(1)).is_ok()
}

//! An entry of one snapshot, in its open directory, and the entries of one path.

use super::levels::Place;
use crate::fs::openat;
use crate::fs::status::Status;
use crate::snapshot::manifest::Entry;
use crate::util::mutex::lock;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

/// A path with its entries.
pub(super) struct Members {
    /// The path as in the manifest.
    pub(super) path: Vec<u8>,
    /// The entry of each snapshot that has one.
    pub(super) all: Vec<Member>,
    held: Arc<Held>,
}

/// How many entries are in memory.
#[derive(Default)]
pub(super) struct Held {
    entries: Mutex<usize>,
    changed: Condvar,
}

impl Held {
    pub(super) fn entries(&self) -> usize {
        *lock(&self.entries)
    }

    /// Waits until there are at most this many, or something else has happened, which [`Held::wake`] announces.
    pub(super) fn wait(&self, most: usize, or: impl Fn() -> bool) {
        let is_over = |entries: &mut usize| *entries > most && !or();
        drop(self.changed.wait_while(lock(&self.entries), is_over).unwrap_or_else(PoisonError::into_inner));
    }

    /// Wakes the thread that waits.
    pub(super) fn wake(&self) {
        // Under the lock, so that it does not come between the check of the waiting thread and its sleep.
        let _entries = lock(&self.entries);
        self.changed.notify_all();
    }
}

impl Members {
    pub(super) fn new(path: Vec<u8>, all: Vec<Member>, held: &Arc<Held>) -> Members {
        *lock(&held.entries) += all.len();
        Members { path, all, held: Arc::clone(held) }
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        *lock(&self.held.entries) -= self.all.len();
        self.held.changed.notify_all();
    }
}

/// An entry of a snapshot.
pub(super) struct Member {
    pub(super) snapshot: usize,
    pub(super) place: Arc<Place>,
    pub(super) entry: Entry,
    /// Whether it was reported that its file cannot be read.
    has_failed: AtomicBool,
    status: OnceLock<rustix::io::Result<Status>>,
}

impl Member {
    pub(super) fn new(snapshot: usize, place: Arc<Place>, entry: Entry) -> Member {
        Member { snapshot, place, entry, has_failed: AtomicBool::new(false), status: OnceLock::new() }
    }

    /// The status of its name, as it was when this was first called.
    pub(super) fn status(&self) -> rustix::io::Result<Status> {
        *self.status.get_or_init(|| Status::at(&self.place.fd, &self.entry.name))
    }

    /// Notes that a failure of its file is reported. Returns whether one was reported before.
    pub(super) fn note_failure(&self) -> bool {
        self.has_failed.swap(true, Ordering::Relaxed)
    }

    /// Whether a failure of its file was reported.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Opens a regular file for reading. Nothing else is opened: to open a device can have effects.
    pub(super) fn open(&self) -> rustix::io::Result<OwnedFd> {
        match self.status()?.file_type() {
            FileType::RegularFile => openat::open_file(self.place.fd.as_fd(), &self.entry.name),
            _ => Err(Errno::LOOP),
        }
    }
}

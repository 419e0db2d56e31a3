//! An entry of one snapshot, in its open directory, and the entries of one path.

use super::levels::Place;
use crate::fs::openat;
use crate::fs::status::Status;
use crate::snapshot::manifest::Entry;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

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
pub(super) struct Held(AtomicUsize);

impl Held {
    pub(super) fn entries(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Members {
    pub(super) fn new(path: Vec<u8>, all: Vec<Member>, held: &Arc<Held>) -> Members {
        held.0.fetch_add(all.len(), Ordering::Relaxed);
        Members { path, all, held: Arc::clone(held) }
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        self.held.0.fetch_sub(self.all.len(), Ordering::Relaxed);
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

    /// Opens a regular file for reading.
    pub(super) fn open(&self) -> rustix::io::Result<OwnedFd> {
        openat::open_file(self.place.fd.as_fd(), &self.entry.name)
    }
}

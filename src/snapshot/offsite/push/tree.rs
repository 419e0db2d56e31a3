//! The tree of a snapshot that is sent, and the bytes that were read from it.

use super::super::progress::Counts;
use super::super::watched::Watch;
use crate::error::Error;
use crate::util::mutex::lock;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The tree.
pub(super) struct Tree {
    pub(super) root: OwnedFd,
    pub(super) counts: Arc<Counts>,
    pub(super) watch: Arc<Watch>,
    read: AtomicU64,
    failure: Mutex<Option<Error>>,
}

impl Tree {
    pub(super) fn new(root: OwnedFd, counts: Arc<Counts>, watch: Arc<Watch>) -> Tree {
        Tree { root, counts, watch, read: AtomicU64::new(0), failure: Mutex::new(None) }
    }

    /// Bytes were read.
    pub(super) fn read(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The bytes that were read.
    pub(super) fn bytes(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Why the snapshot could not be read to its end.
    pub(super) fn failure(&self) -> Option<Error> {
        lock(&self.failure).take()
    }

    /// Nothing is published any more.
    pub(super) fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.watch.end();
    }
}

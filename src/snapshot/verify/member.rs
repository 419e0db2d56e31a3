//! An entry of one snapshot, in its open directory.

use super::levels::Place;
use crate::fs::openat;
use crate::snapshot::manifest::Entry;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

/// An entry of a snapshot.
pub(super) struct Member {
    pub(super) snapshot: usize,
    pub(super) place: Arc<Place>,
    pub(super) entry: Entry,
}

impl Member {
    /// Opens a regular file for reading.
    pub(super) fn open(&self) -> rustix::io::Result<OwnedFd> {
        openat::open_file(self.place.fd.as_fd(), &self.entry.name)
    }
}

//! One entry in the snapshot's tree: its content and attributes, opened as far as they are needed.

use super::place::Place;
use crate::fs::metadata;
use crate::fs::openat;
use crate::snapshot::manifest::Entry;
use crate::snapshot::recorded::{Recorded, recorded};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The entry in the snapshot, opened as far as it is needed.
pub(super) struct Origin<'a> {
    pub(super) place: &'a Place,
    entry: &'a Entry,
    file: Option<OwnedFd>,
    xattrs: Option<Recorded>,
}

impl<'a> Origin<'a> {
    pub(super) fn new(place: &'a Place, entry: &'a Entry) -> Self {
        Origin { place, entry, file: None, xattrs: None }
    }

    /// The content of a regular file.
    pub(super) fn file(&mut self) -> rustix::io::Result<BorrowedFd<'_>> {
        if self.file.is_none() {
            self.file = Some(openat::open_regular(self.place.source.as_fd(), &self.entry.name)?);
        }
        self.file.as_ref().map(AsFd::as_fd).ok_or(Errno::BADF)
    }

    /// The extended attributes.
    pub(super) fn recorded(&mut self) -> rustix::io::Result<&Recorded> {
        if self.xattrs.is_none() {
            let present = || metadata::readable_xattrs_at(&self.place.source, &self.entry.name);
            self.xattrs = Some(recorded(&self.entry.meta, present)?);
        }
        self.xattrs.as_ref().ok_or(Errno::BADF)
    }
}

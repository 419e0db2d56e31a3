//! One entry in the snapshot's tree: its content and attributes, opened as far as they are needed.

use super::place::Place;
use crate::beneath;
use crate::metadata::{self, Xattr};
use crate::snapshot::manifest::{Entry, Meta};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The entry in the snapshot, opened as far as it is needed.
pub(super) struct Origin<'a> {
    pub(super) place: &'a Place,
    entry: &'a Entry,
    file: Option<OwnedFd>,
    xattrs: Option<Vec<Xattr>>,
}

impl<'a> Origin<'a> {
    pub(super) fn new(place: &'a Place, entry: &'a Entry) -> Self {
        Origin { place, entry, file: None, xattrs: None }
    }

    /// The content of a regular file.
    pub(super) fn file(&mut self) -> rustix::io::Result<BorrowedFd<'_>> {
        if self.file.is_none() {
            self.file = Some(beneath::open_file(self.place.source.as_fd(), &self.entry.name)?);
        }
        self.file.as_ref().map(AsFd::as_fd).ok_or(Errno::BADF)
    }

    /// All extended attributes, those that only the manifest has among them, sorted by name.
    pub(super) fn xattrs(&mut self) -> rustix::io::Result<&[Xattr]> {
        if self.xattrs.is_none() {
            let present = || metadata::xattrs_at(&self.place.source, &self.entry.name);
            self.xattrs = Some(with_kept(&self.entry.meta, present)?);
        }
        Ok(self.xattrs.as_deref().unwrap_or_default())
    }
}

/// The extended attributes of the tree and those that only the manifest has.
pub(super) fn with_kept(
    meta: &Meta,
    present: impl FnOnce() -> rustix::io::Result<Vec<Xattr>>,
) -> rustix::io::Result<Vec<Xattr>> {
    let mut xattrs = match meta.has_xattrs.then(present) {
        Some(Ok(xattrs)) => xattrs,
        // A node that the tree could not take is only in the manifest.
        Some(Err(Errno::NOENT)) if meta.kept_here => Vec::new(),
        Some(Err(errno)) => return Err(errno),
        None => Vec::new(),
    };
    for (name, value) in &meta.kept_xattrs {
        xattrs.retain(|(present, _)| present != name.as_ref());
        xattrs.push((name.to_vec(), value.to_vec()));
    }
    xattrs.sort_unstable();
    Ok(xattrs)
}

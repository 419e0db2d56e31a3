//! The files of the base that a new file may start from: then only the difference is sent.

use super::elsewhere::Candidate;
use crate::fs::openat;
use crate::fs::status::Status;
use crate::snapshot::manifest::Entry;
use crate::util::path::join;
use rustix::fs::FileType;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A directory of the snapshot, and the same one of the base.
#[derive(Clone)]
pub(super) struct Directories {
    pub(super) path: Arc<Vec<u8>>,
    pub(super) new: Arc<OwnedFd>,
    pub(super) old: Option<Arc<OwnedFd>>,
}

/// Files of the base.
pub(super) struct Starts<'s> {
    /// The file at the same path.
    pub(super) old: Option<&'s Entry>,
    /// Files at other paths.
    pub(super) others: &'s [Candidate],
    pub(super) base: Option<BorrowedFd<'s>>,
    /// Files on this filesystem cannot share data, so they are read to find differences.
    pub(super) reads: bool,
}

impl Starts<'_> {
    /// Opens the files that are as they were recorded, the best ones first, with their paths. `at` and `entry` are the
    /// place of the new file.
    pub(super) fn open(&self, at: &Directories, entry: &Entry) -> impl Iterator<Item = (Vec<u8>, OwnedFd)> {
        let same = self.old.zip(at.old.as_ref()).and_then(|(old, dir)| {
            let fd = openat::open_regular(dir.as_fd(), &old.name).ok()?;
            is_as_recorded(old, &fd).then(|| (join(&at.path, &entry.name), fd))
        });
        let others = self.others.iter().filter_map(|Candidate { path, entry }| {
            let fd = openat::open_regular_at(self.base?, path).ok()?;
            is_as_recorded(entry, &fd).then(|| (path.clone(), fd))
        });
        same.into_iter().chain(others)
    }
}

fn is_as_recorded(record: &Entry, fd: &OwnedFd) -> bool {
    let Some(file) = record.file() else { return false };
    Status::of(fd).is_ok_and(|status| {
        status.file_type() == FileType::RegularFile && status.size == file.size && status.mtime == record.meta.mtime
    })
}

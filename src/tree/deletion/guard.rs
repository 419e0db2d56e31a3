//! Finds mounts in a directory before its entries are deleted: an entry with a mount is neither moved nor deleted.

use crate::error::Error;
use crate::fs::mounts::{Inside, Table};
use crate::util::mutex::lock;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Watches the mounts in one directory.
#[derive(Debug)]
pub(super) struct Guard<'a> {
    dir: BorrowedFd<'a>,
    /// `None` where `/proc` is not mounted: then only the kernel refuses to delete a mount point.
    seen: Mutex<Option<(Table, Vec<Inside>)>>,
}

impl<'a> Guard<'a> {
    pub(super) fn new(dir: BorrowedFd<'a>) -> Guard<'a> {
        let table = Table::read();
        let seen = table.and_then(|table| table.inside(dir).map(|mounts| (table, mounts)));
        Guard { dir, seen: Mutex::new(seen.ok()) }
    }

    /// A current mount on this entry of the directory or below it.
    pub(super) fn mount_at(&self, name: &[u8]) -> Option<PathBuf> {
        let mut seen = lock(&self.seen);
        let (table, mounts) = seen.as_mut()?;
        if table.refresh().unwrap_or(false)
            && let Ok(now) = table.inside(self.dir)
        {
            *mounts = now;
        }
        mounts.iter().find(|mount| mount.is_at(name)).map(|mount| mount.point.clone())
    }
}

/// A mount on this entry of a directory or below it.
pub(crate) fn mount_at(dir: BorrowedFd<'_>, name: &[u8]) -> Option<PathBuf> {
    Guard::new(dir).mount_at(name)
}

/// The error for an entry that is kept because it is a mount point, or contains one.
pub(crate) fn busy(shown: &Path, point: &Path) -> Error {
    let error = Error::io("delete", shown, Errno::BUSY);
    let point = crate::util::text::path(point);
    error.hint(format!("{point} is mounted there, so all of it was kept; unmount it first"))
}

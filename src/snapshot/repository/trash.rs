//! The trash of a repository: directories that are no longer needed are moved there, and deleted later.

use super::dir::{Dir, os};
use super::handle::Repository;
use super::layout::CONTROL;
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::tree::deletion::{self, FreshNames};
use rustix::fs;
use std::os::fd::AsFd;

/// A part of every path in the trash of any repository.
pub(crate) fn trash_in_paths() -> String {
    format!("/{CONTROL}/trash/")
}

/// Deletes everything in the trash. It first syncs the renames that brought it there: a power cut must not bring back a
/// snapshot without its files, and an earlier run may have failed to sync them.
pub(crate) fn empty_trash(repository: &Repository, threads: usize, monitor: &dyn Monitor) -> Result<deletion::Stats> {
    let trash = repository.trash()?;
    repository.root.sync()?;
    trash.sync()?;
    let options = deletion::Options { threads: Some(threads), subvolumes: true };
    deletion::empty(trash.as_fd(), trash.path(), &options, monitor)
}

/// Removes an entry that should not be a directory. A directory goes into the trash.
pub(super) fn clear_entry(repository: &Repository, from: &Dir, name: &[u8], fresh: &FreshNames) -> Result<()> {
    match from.stat(os(name))? {
        None => Ok(()),
        Some(stat) if fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::Directory => {
            throw_away(repository, from, name, fresh)
        }
        Some(_) => from.unlink(os(name)),
    }
}

/// Moves an entry into the trash. An entry with a mount on it or in it stays.
pub(super) fn throw_away(repository: &Repository, from: &Dir, name: &[u8], fresh: &FreshNames) -> Result<()> {
    if let Some(point) = deletion::mount_at(from.as_fd(), name) {
        return Err(deletion::busy(&from.join(os(name)), &point));
    }
    fresh
        .rename(from.as_fd(), name, repository.trash()?.as_fd())
        .map(|_| ())
        .map_err(|errno| Error::io("put into the trash", from.join(os(name)), errno))
}

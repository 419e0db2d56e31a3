//! Syncs shared extents to the disk. Until then a power cut undoes the sharing, and a cache that recorded it would keep
//! the next runs from sharing the files again.

use crate::error::{Error, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The filesystems with files in scope, by number: a directory on each, if one can be read.
#[derive(Debug, Default)]
pub(super) struct Disks(BTreeMap<u16, Option<OwnedFd>>);

impl Disks {
    /// Adds the filesystem of an open directory.
    pub(super) fn add(&mut self, volume: u16, directory: impl AsFd) {
        let known = self.0.entry(volume).or_default();
        if known.is_none() {
            // The kernel reports a failed write once for each open file description, so this one is the run's own.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            *known = rustix::fs::openat(directory, c".", flags, Mode::empty()).ok();
        }
    }

    /// Writes everything on these filesystems to the disk.
    ///
    /// # Errors
    /// If the sync fails; then the sharing may be lost.
    pub(super) fn sync(&self) -> Result<()> {
        self.0.values().try_for_each(|directory| match directory {
            Some(directory) => rustix::fs::syncfs(directory).map_err(|errno| not_written(&path(directory), errno)),
            None => {
                rustix::fs::sync();
                Ok(())
            }
        })
    }
}

fn not_written(path: &Path, errno: Errno) -> Error {
    Error::io("sync the shared extents of", path, errno).hint(
        "no file has lost content, but how much was freed is not known; check the disk (dmesg(1)), then run again",
    )
}

/// The present path of an open directory.
fn path(directory: &OwnedFd) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).unwrap_or_default()
}

//! The state that every part of a restore needs. The parts have files of their own.

use super::done::Done;
use super::job::Job;
use super::options::{Options, TEMPORARY};
use super::stats::Stats;
use crate::error::{Error, Result};
use crate::fs::metadata::Creator;
use crate::fs::shutdown;
use crate::fs::status::{Status, Time};
use crate::monitor::Monitor;
use crate::snapshot::manifest::Reader;
use crate::snapshot::skipped::Skipped;
use crate::tree::deletion::in_place::Mounts;
use crate::tree::writer::{AfterSync, Devices, Target, Wording};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// The state that every part of a restore needs.
pub(super) struct Context<'a> {
    pub(super) options: &'a Options,
    pub(super) monitor: &'a dyn Monitor,
    pub(super) creator: Creator,
    /// The repository and every directory above it, which are never deleted.
    pub(super) guarded: Vec<(u64, u64)>,
    /// Filesystems that are written to.
    pub(super) devices: Devices,
    /// Jobs that wait until data is on the disk.
    pub(super) waiting: AfterSync<Job>,
    /// The counts of the jobs that waited.
    pub(super) late: Mutex<Stats>,
    /// The error of a waiting job that ended the run.
    pub(super) fatal: OnceLock<Error>,
    /// The records of the snapshot.
    pub(super) manifest: &'a Reader,
    /// The snapshot's tree.
    pub(super) tree: OwnedFd,
    /// The changes so far.
    pub(super) done: Done,
    /// When the snapshot was begun.
    pub(super) created: Time,
    /// The mounts in the target.
    pub(super) mounts: Mounts,
    /// What the snapshot lacks if it is incomplete and entries that it lacks will be deleted.
    pub(super) skipped: Option<Skipped>,
}

impl Context<'_> {
    /// Whether the run continues.
    ///
    /// # Errors
    /// If the monitor asks to stop, a job that waited for a sync ended the run, or a sync has failed.
    pub(super) fn check(&self) -> Result<()> {
        match self.fatal.get() {
            _ if self.monitor.is_cancelled() => Err(Error::interrupted()),
            Some(_) => Err(Error::failed("continue")),
            None => self.devices.check(&self.options.target),
        }
    }

    /// The repository's directory, by device and inode.
    pub(super) fn repository(&self) -> Option<(u64, u64)> {
        self.guarded.first().copied()
    }

    /// Whether an inode is the repository's directory.
    pub(super) fn is_repository(&self, status: &Status) -> bool {
        self.repository() == Some((status.dev, status.ino))
    }

    /// Whether an inode is the repository's directory, or one above it.
    pub(super) fn is_guarded(&self, status: &Status) -> bool {
        self.guarded.contains(&(status.dev, status.ino))
    }
}

/// The wording of the failures of a restore.
static WORDING: Wording = Wording {
    action: "restore",
    busy: Some("something is mounted on it"),
    full: None,
    immutable: "it, or its directory, may be immutable or append-only: see lsattr(1)",
    lost: Some("the filesystem of the target, or that of the repository, has failed: see dmesg(1)"),
};

impl Target for Context<'_> {
    fn path(&self) -> &Path {
        &self.options.target
    }

    fn shown(&self, path: &[u8]) -> PathBuf {
        self.options.target.join(OsStr::from_bytes(path))
    }

    fn devices(&self) -> &Devices {
        &self.devices
    }

    fn creator(&self) -> &Creator {
        &self.creator
    }

    fn temporary(&self) -> &'static str {
        TEMPORARY
    }

    fn wording(&self) -> &'static Wording {
        &WORDING
    }

    /// The repository's filesystem is needed, too.
    fn is_lost(&self, errno: Errno) -> bool {
        self.devices.are_lost(errno) || (shutdown::is_suspected(errno) && shutdown::is_unreadable(&self.tree))
    }
}

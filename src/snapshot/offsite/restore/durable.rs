//! The filesystems of the target: all written data is on the disk before anything says so.

use crate::error::{Error, Result};
use crate::fs::filesystem::Kind;
use crate::tree::writer::Devices;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::Path;

/// The filesystems that are written to.
#[derive(Default)]
pub(super) struct Filesystems {
    devices: Devices,
    /// Their numbers.
    known: RefCell<HashSet<u64>>,
    /// Whether one of them needs a sync of each file.
    has_unreliable: Cell<bool>,
}

impl Filesystems {
    /// Whether this filesystem is watched.
    pub(super) fn has(&self, device: u64) -> bool {
        self.known.borrow().contains(&device)
    }

    /// From now on, a write that fails on the filesystem of this directory makes the next sync fail.
    pub(super) fn watch(&self, dir: &Path) -> Result<()> {
        let failed = |errno| match Error::io("restore below", dir, errno) {
            error if errno == Errno::ACCESS => error.hint("it must be readable: the sync of its filesystem needs that"),
            error => error,
        };
        let fd = open(dir, OFlags::DIRECTORY).map_err(failed)?;
        let device = self.devices.of(Some(&fd)).map_err(failed)?;
        self.known.borrow_mut().insert(rustix::fs::fstat(&fd).map_err(failed)?.st_dev);
        if !device.kind.is_some_and(Kind::has_reliable_syncfs) {
            self.has_unreliable.set(true);
        }
        Ok(())
    }

    /// Writes everything to the disk. After the first failure, every call fails.
    pub(super) fn sync(&self, target: &Path) -> Result<()> {
        self.devices.sync(target).map(|_| ())
    }

    /// Writes a file to the disk, if the sync of its filesystem may not have done that.
    pub(super) fn confirm(&self, file: &Path) -> Result<()> {
        if !self.has_unreliable.get() {
            return Ok(());
        }
        let confirmed = match open(file, OFlags::NOFOLLOW | OFlags::NONBLOCK) {
            // Its owner may not read it. The sync has written it; only an error could go unnoticed.
            Err(Errno::ACCESS) => Ok(()),
            opened => opened.and_then(|fd| self.devices.of(Some(&fd))?.confirm(&fd)),
        };
        confirmed.map_err(|errno| Error::io("sync", file, errno))
    }
}

fn open(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, flags | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

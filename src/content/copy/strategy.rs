//! The memory of one destination filesystem: whether it can clone from a source device, and what its engines refused
//! (`refusals`). Cloning is tried, judged by the error, and remembered.

use super::engine::Engine;
use super::reason::Reason;
use super::refusals::{Refusal, Refusals};
use crate::fs::filesystem::Kind;
use crate::sys::reflink;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{OnceLock, RwLock};

/// Why a clone was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloneError {
    /// Copy instead, for this reason.
    Copy(Reason),
    /// A failure that would probably also fail a copy.
    Failed(Errno),
}

/// The known facts about copying to one filesystem, by the `st_dev` of the source.
#[derive(Debug, Default)]
pub struct Strategy {
    pairs: RwLock<HashMap<u64, Result<(), Reason>>>,
    engines: Refusals,
    /// The kind of the destination.
    kind: OnceLock<Option<Kind>>,
}

impl Strategy {
    /// A strategy that has tried nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether sources on this device can be cloned; `None` before the first try.
    pub fn known(&self, dev: u64) -> Option<Result<(), Reason>> {
        self.pairs.read().unwrap_or_else(std::sync::PoisonError::into_inner).get(&dev).copied()
    }

    /// What the engines refused so far.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.engines.all()
    }

    /// Whether an engine is worth trying for a source on this device.
    pub(super) fn is_open(&self, engine: Engine, dev: u64) -> bool {
        self.engines.is_open(engine, dev)
    }

    /// Records that an engine copied from this device.
    pub(super) fn served(&self, engine: Engine, dev: u64) {
        self.engines.served(engine, dev);
    }

    /// Records that an engine refused a file of this device. Returns whether this is the first time.
    pub(super) fn refused(&self, engine: Engine, dev: u64, errno: Errno) -> bool {
        self.engines.refused(engine, dev, errno)
    }

    /// The kind of the filesystem that holds all destinations, including this file.
    pub fn kind(&self, destination: impl AsFd) -> Option<Kind> {
        *self.kind.get_or_init(|| Kind::of(destination).ok())
    }

    /// Makes the empty file `destination` share all of `source`, which is on the device `dev`.
    pub fn clone(&self, source: impl AsFd, dev: u64, destination: impl AsFd) -> Result<(), CloneError> {
        let known = self.known(dev);
        if let Some(Err(reason)) = known {
            return Err(CloneError::Copy(reason));
        }
        let result = match reflink::clone(&source, &destination) {
            // On Btrfs both files must be copy-on-write, or neither. An empty file can still be switched. The flag is
            // not checked before, and the directory's flag does not decide: with the mount option `nodatacow` every new
            // file has it.
            Err(Errno::INVAL) if match_nocow(&source, &destination) => reflink::clone(&source, &destination),
            result => result,
        };
        let pair = match result {
            Ok(()) => Ok(()),
            Err(Errno::XDEV) => Err(Reason::OtherFilesystem),
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => Err(Reason::NoReflink),
            Err(error) => return Err(of_this_file(error)),
        };
        if known.is_none() {
            self.pairs.write().unwrap_or_else(std::sync::PoisonError::into_inner).insert(dev, pair);
        }
        pair.map_err(CloneError::Copy)
    }
}

/// What an error means for one file, when the two filesystems support clones.
fn of_this_file(error: Errno) -> CloneError {
    match error {
        Errno::INVAL => CloneError::Copy(Reason::NoCow),
        Errno::TXTBSY => CloneError::Copy(Reason::SwapFile),
        Errno::PERM | Errno::ACCESS | Errno::BADF => CloneError::Copy(Reason::NotPermitted),
        error => CloneError::Failed(error),
    }
}

/// Gives an empty file the copy-on-write flag of its source. Returns whether the flag was different.
fn match_nocow(source: impl AsFd, destination: impl AsFd) -> bool {
    let nocow = |flags: IFlags| flags & IFlags::NOCOW;
    match (ioctl_getflags(source), ioctl_getflags(&destination)) {
        (Ok(wanted), Ok(present)) if nocow(wanted) != nocow(present) => {
            ioctl_setflags(destination, present ^ IFlags::NOCOW).is_ok()
        }
        _ => false,
    }
}

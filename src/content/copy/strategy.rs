//! Whether a file can be cloned: tried, judged by the error, and remembered per pair of filesystems. And the memory of what
//! the engines refused (`refusals`), which lives as long.

use super::engine::Engine;
use super::refusals::{Refusal, Refusals};
use crate::fs::filesystem::Kind;
use crate::sys::reflink;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fmt;
use std::os::fd::AsFd;
use std::sync::{OnceLock, RwLock};

/// Why content was copied and not cloned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Source and destination lie on different filesystems.
    OtherFilesystem,
    /// The filesystem has no reflinks.
    NoReflink,
    /// One of the two is not copy-on-write (`chattr +C`), or the kernel found the pair invalid.
    NoCow,
    /// The source is an active swap file.
    SwapFile,
    /// The kernel does not permit it for this file.
    NotPermitted,
    /// A clone was made, but these blocks alone would have kept the whole extents of the source in use.
    Pinned,
    /// The clone failed for another reason; a copy did not.
    Failed,
}

impl Reason {
    /// The name in the JSON summary's `reasons`.
    pub fn name(self) -> &'static str {
        match self {
            Reason::OtherFilesystem => "other_filesystem",
            Reason::NoReflink => "no_reflink",
            Reason::NoCow => "nocow",
            Reason::SwapFile => "swap_file",
            Reason::NotPermitted => "not_permitted",
            Reason::Pinned => "pinned_extents",
            Reason::Failed => "clone_failed",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::OtherFilesystem => "the source lies on another filesystem",
            Reason::NoReflink => "the filesystem has no reflinks",
            Reason::NoCow => "the file is not copy-on-write",
            Reason::SwapFile => "the file is a swap file",
            Reason::NotPermitted => "the kernel does not permit a clone of this file",
            Reason::Pinned => "sharing these blocks would keep whole extents of the source in use",
            Reason::Failed => "the clone failed",
        })
    }
}

/// Why a clone did not come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloneError {
    /// Copy instead, for this reason.
    Copy(Reason),
    /// A real failure: a copy would meet it too.
    Failed(Errno),
}

/// The memory of what one destination filesystem refused, by the `st_dev` of the source.
#[derive(Debug, Default)]
pub struct Strategy {
    pairs: RwLock<HashMap<u64, Result<(), Reason>>>,
    engines: Refusals,
    /// Of the destination.
    kind: OnceLock<Option<Kind>>,
}

impl Strategy {
    /// A ladder that has tried nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is known of sources on this device: `None` before the first try.
    pub fn known(&self, dev: u64) -> Option<Result<(), Reason>> {
        self.pairs.read().unwrap_or_else(std::sync::PoisonError::into_inner).get(&dev).copied()
    }

    /// What the engines below the clone refused so far.
    pub fn refusals(&self) -> Vec<Refusal> {
        self.engines.all()
    }

    /// Whether an engine is worth asking for a source on this device.
    pub(super) fn is_open(&self, engine: Engine, dev: u64) -> bool {
        self.engines.is_open(engine, dev)
    }

    /// Notes that an engine copied from this device.
    pub(super) fn served(&self, engine: Engine, dev: u64) {
        self.engines.served(engine, dev);
    }

    /// Notes that an engine refused a file of this device; whether that is said for the first time.
    pub(super) fn refused(&self, engine: Engine, dev: u64, errno: Errno) -> bool {
        self.engines.refused(engine, dev, errno)
    }

    /// The kind of the one filesystem of all destinations, of which this file is one.
    pub fn kind(&self, destination: impl AsFd) -> Option<Kind> {
        *self.kind.get_or_init(|| Kind::of(destination).ok())
    }

    /// Makes the empty file `destination` share all of `source`, which lies on the device `dev`.
    pub fn clone(&self, source: impl AsFd, dev: u64, destination: impl AsFd) -> Result<(), CloneError> {
        let known = self.known(dev);
        if let Some(Err(reason)) = known {
            return Err(CloneError::Copy(reason));
        }
        let result = match reflink::clone(&source, &destination) {
            // On Btrfs both must be copy-on-write or both not; an empty file can still become the other. It is neither asked
            // for before nor left to its directory: a mount with `nodatacow` makes every new file so.
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

/// What an error means for one file, its pair of filesystems being able to clone.
fn of_this_file(error: Errno) -> CloneError {
    match error {
        Errno::INVAL => CloneError::Copy(Reason::NoCow),
        Errno::TXTBSY => CloneError::Copy(Reason::SwapFile),
        Errno::PERM | Errno::ACCESS | Errno::BADF => CloneError::Copy(Reason::NotPermitted),
        error => CloneError::Failed(error),
    }
}

/// Makes an empty file copy-on-write if its source is and it is not, or the other way round; whether that was so.
fn match_nocow(source: impl AsFd, destination: impl AsFd) -> bool {
    let nocow = |flags: IFlags| flags & IFlags::NOCOW;
    match (ioctl_getflags(source), ioctl_getflags(&destination)) {
        (Ok(wanted), Ok(present)) if nocow(wanted) != nocow(present) => {
            ioctl_setflags(destination, present ^ IFlags::NOCOW).is_ok()
        }
        _ => false,
    }
}

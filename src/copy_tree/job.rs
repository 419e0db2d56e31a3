//! The jobs of a copy that wait for a sync, as data. `pending` does them.

use crate::fs::metadata::{FileAttr, Xattr};
use crate::fs::status::Status;
use crate::fs::timestamp::Clock;
use crate::tree::writer::{First, Replacing, Unsynced};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A job for after the next sync. Paths are relative to the top.
pub(super) enum Job {
    /// Gives a file its times, the name of the file that it replaces, and its seal.
    File {
        /// The file.
        file: Unsynced,
        /// Its source. `None` if the status of the source shows no changes.
        source: Option<Source>,
        /// Its final path.
        path: Vec<u8>,
    },
    /// Replaces another file with another name of such a file.
    Name {
        /// The name until then, and the other file.
        replacing: Replacing,
        /// The path of the other file.
        path: Vec<u8>,
    },
    /// Sets the metadata of a directory, because names in it were replaced.
    Directory(Leaving),
    /// Seals an inode that has all its names.
    Seal(First),
}

/// A source, with its status when it was copied.
pub(super) struct Source {
    pub(super) dir: Arc<OwnedFd>,
    pub(super) name: Vec<u8>,
    pub(super) path: Vec<u8>,
    pub(super) status: Status,
    /// The clock that stamps it.
    pub(super) clock: Clock,
}

/// A directory with all its entries, and the metadata to set.
pub(super) struct Leaving {
    pub(super) target: Arc<OwnedFd>,
    pub(super) status: Status,
    pub(super) xattrs: Vec<Xattr>,
    pub(super) wanted: FileAttr,
    /// Whether it keeps attributes that are not in `xattrs`.
    pub(super) keeps_others: bool,
    pub(super) path: Vec<u8>,
}

//! The jobs of a copy that wait for a sync, as data. `pending` does them.

use crate::fs::metadata::{FileAttr, Xattr};
use crate::fs::status::Status;
use crate::fs::timestamp::Clock;
use crate::tree::writer::{First, Replacing, Unsynced};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A job for after the next sync. Paths are below the top.
pub(super) enum Job {
    /// A file gets its times, the name of the file that it replaces, and what forbids changes.
    File {
        /// The file.
        file: Unsynced,
        /// What it was copied from; `None` if its status says nothing.
        source: Option<Source>,
        /// What it is sealed with.
        seal: Option<FileAttr>,
        /// The path that it has at the end.
        path: Vec<u8>,
    },
    /// A further name of such a file replaces another file.
    Name {
        /// The name that it has until then, and the other file.
        replacing: Replacing,
        /// The path of the other file.
        path: Vec<u8>,
    },
    /// A directory gets its metadata, since names in it were replaced.
    Directory(Leaving),
    /// An inode that has all its names gets what forbids changes.
    Seal(First),
}

/// A source and its status when it was copied.
pub(super) struct Source {
    pub(super) dir: Arc<OwnedFd>,
    pub(super) name: Vec<u8>,
    pub(super) path: Vec<u8>,
    pub(super) status: Status,
    /// The clock that stamps it.
    pub(super) clock: Clock,
}

/// A directory in which everything is made, and the metadata that it gets.
pub(super) struct Leaving {
    pub(super) target: Arc<OwnedFd>,
    pub(super) status: Status,
    pub(super) xattrs: Vec<Xattr>,
    pub(super) wanted: FileAttr,
    /// Whether it keeps the attributes that are not among these.
    pub(super) keeps_others: bool,
    pub(super) path: Vec<u8>,
}

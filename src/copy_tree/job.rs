//! The jobs of a copy that wait for a sync, as data. `pending` does them. Names of directories are in `publishing`.

use crate::fs::metadata::{FileAttr, Xattr};
use crate::fs::status::Status;
use crate::fs::timestamp::Clock;
use crate::tree::writer::{First, Replacing, StagedDir, Unsynced};
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

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
    /// Gives a directory its own name, because files in it were written.
    Publish(Publishing),
    /// Sets the metadata of a directory, because it got its name, or names in it were given, after a sync.
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

/// A directory with finished files that has a temporary name until they are on the disk.
pub(super) struct Publishing {
    pub(super) dir: StagedDir,
    /// The same directory, open.
    pub(super) fd: Arc<OwnedFd>,
    /// Its final path.
    pub(super) path: Vec<u8>,
    /// The status of its source.
    pub(super) source: Status,
    /// The files that get their flags when it has its name.
    pub(super) seals: Vec<SealedFile>,
    /// Set if somebody else created a directory with its name.
    pub(super) instead: Instead,
}

/// The directory that somebody else created in place of one that waits for its name.
pub(super) type Instead = Arc<OnceLock<Arc<OwnedFd>>>;

/// A file with flags that would prevent deleting or moving it.
#[derive(Clone)]
pub(super) struct SealedFile {
    pub(super) name: Vec<u8>,
    pub(super) seal: FileAttr,
}

/// A directory with all its entries, and the metadata to set.
pub(super) struct Leaving {
    pub(super) target: Arc<OwnedFd>,
    /// Another directory that gets the metadata if it is set when the metadata is set.
    pub(super) instead: Option<Instead>,
    pub(super) status: Status,
    pub(super) xattrs: Vec<Xattr>,
    pub(super) wanted: FileAttr,
    /// Whether it is new, so that it has no other attributes.
    pub(super) is_new: bool,
    /// Whether some attributes of the source could not be read. Then none is removed.
    pub(super) has_unread: bool,
    pub(super) path: Vec<u8>,
}

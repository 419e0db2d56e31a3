//! An entry that was added to the snapshot: its record for the manifest, and its cost.

use super::stats::Stats;
use crate::error::Error;
use crate::fs::metadata::Refused;
use crate::snapshot::manifest::{Entry, Meta};
use rustix::io::Errno;
use std::path::PathBuf;

/// An entry that was added, and its cost.
pub(super) struct AddedEntry {
    pub(super) entry: Entry,
    pub(super) cost: Stats,
}

/// The outcome of one try to add a file. The source may change meanwhile.
pub(super) enum Try {
    /// The file is added with the content of one moment, whatever has happened to the source since.
    Frozen(AddedEntry),
    /// The file is added, and right if the source is still as it was.
    Added(AddedEntry),
    /// The source changed while it was cloned; nothing is left of that. Never the outcome of the last try.
    Changed,
    /// Nothing was made: this way is not open or not worth it, or the file was skipped and reported.
    Nothing,
}

/// Adds what the tree refused to a record.
pub(super) fn keep(meta: &mut Meta, refused: Refused) {
    meta.kept_here |= refused.ownership;
    meta.kept_xattrs.extend(refused.xattrs.into_iter().map(|(name, value)| (name.into(), value.into())));
}

/// Marks the record of an entry that lacks something: the next run looks at the entry again.
pub(super) fn incomplete(meta: &mut Meta) {
    meta.recheck = true;
}

/// The error for extended attributes that the kernel does not return: the entry is kept without them.
pub(super) fn unread_xattrs(path: PathBuf, errno: Errno) -> Error {
    let error = Error::io("read all extended attributes of", path, errno);
    match errno {
        Errno::TOOBIG => error.hint("their names exceed 64 KiB; the rest of the entry is kept"),
        _ => error.hint("the rest of the entry is kept"),
    }
}

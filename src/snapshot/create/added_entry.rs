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

impl AddedEntry {
    /// Makes the cost that of a clone with the size and the holes that the record has. The next run may rely on that:
    /// it takes over the sums of this run, and subtracts the records that it meets.
    pub(super) fn count_clone(&mut self) {
        let Some(file) = self.entry.file() else { return };
        let Stats { read_bytes, range_shared_bytes, .. } = self.cost;
        let clone = Stats::of_clone(file);
        let range_shared_bytes = range_shared_bytes.min(clone.cloned_bytes);
        self.cost = Stats { read_bytes, range_shared_bytes, ..clone };
    }
}

/// The outcome of one try to add a file. The source may change meanwhile.
pub(super) enum Try {
    /// The file was added. It holds the content of one moment, whatever happened to the source since.
    Frozen(AddedEntry),
    /// The file was added. It is right if the source has not changed since.
    Added(AddedEntry),
    /// The source changed while it was cloned, and the clone was removed. The last try never has this outcome.
    Changed,
    /// Nothing was made: this way is impossible or not worth it, or the file was skipped and reported.
    Nothing,
}

/// Adds to a record the metadata that the tree refused.
pub(super) fn keep(meta: &mut Meta, refused: Refused) {
    meta.kept_here |= refused.ownership;
    meta.kept_xattrs.extend(refused.xattrs.into_iter().map(|(name, value)| (name.into(), value.into())));
}

/// Marks the record of an incomplete entry, so that the next run looks at the entry again.
pub(super) fn incomplete(meta: &mut Meta) {
    meta.recheck = true;
}

/// The error for extended attributes that the kernel does not return. The entry is kept without them.
pub(super) fn unread_xattrs(path: PathBuf, errno: Errno) -> Error {
    let error = Error::io("read all extended attributes of", path, errno).keeping_entry();
    match errno {
        Errno::TOOBIG => error.hint("their names exceed 64 KiB; the rest of the entry is kept"),
        _ => error.hint("the rest of the entry is kept"),
    }
}

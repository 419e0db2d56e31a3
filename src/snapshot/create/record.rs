//! What became of one entry: its record for the manifest, and what it cost.

use super::stats::Stats;
use crate::error::Error;
use crate::fs::metadata::Refused;
use crate::snapshot::manifest::{Entry, Meta};
use rustix::io::Errno;
use std::path::PathBuf;

/// An entry that has been brought in, and what that cost.
pub(super) struct Brought {
    pub(super) entry: Entry,
    pub(super) cost: Stats,
}

/// Adds what the tree refused to a record.
pub(super) fn keep(meta: &mut Meta, refused: Refused) {
    meta.kept_here |= refused.ownership;
    meta.kept_xattrs.extend(refused.xattrs.into_iter().map(|(name, value)| (name.into(), value.into())));
}

/// Makes a record that of an entry that lacks something: the next run looks at it again.
pub(super) fn incomplete(meta: &mut Meta) {
    meta.recheck = true;
}

/// Extended attributes that the kernel does not hand out: the entry is kept without them.
pub(super) fn unread_xattrs(path: PathBuf, errno: Errno) -> Error {
    let error = Error::io("read all extended attributes of", path, errno);
    match errno {
        Errno::TOOBIG => error.hint("their names exceed 64 KiB; the rest of the entry is kept"),
        _ => error.hint("the rest of the entry is kept"),
    }
}

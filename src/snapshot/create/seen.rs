//! An entry of the source as it was found, beside its record in the last snapshot.

use super::devices::{Devices, Relation};
use super::stats::Stats;
use crate::fs::status::Status;
use crate::monitor::Change;
use crate::snapshot::manifest::{Body, Entry, FileBody, Stored};
use rustix::fs::FileType;

/// An entry that has been looked at.
pub(super) struct Seen<'n> {
    pub(super) name: &'n [u8],
    pub(super) status: Status,
    /// Its record in the last snapshot, if it is of the same type.
    pub(super) old: Option<Entry>,
    /// `None`: nothing changed.
    pub(super) change: Option<Change>,
}

/// How an entry differs from its record; `None`: not at all, by type, size, mtime, ctime, inode and filesystem.
pub(super) fn compare(old: &Entry, status: &Status, devices: &Devices, relation: &Relation) -> Option<Change> {
    let meta = &old.meta;
    if FileType::from_raw_mode(meta.mode) != status.file_type() {
        return Some(Change::Type);
    }
    let size = old.file().map_or(0, |file| file.size);
    if meta.mtime != status.mtime || (old.file().is_some() && size != status.size) {
        return Some(Change::Content);
    }
    let is_settled = devices.is_settled(meta, relation) && !old.file().is_some_and(|file| file.changed);
    if meta.ctime != status.ctime || meta.ino != status.ino || !is_settled {
        return Some(Change::Metadata);
    }
    None
}

pub(super) fn count(seen: &Seen<'_>, part: &mut Stats) {
    match seen.status.file_type() {
        FileType::RegularFile => {
            part.files += 1;
            match seen.change {
                None => part.unchanged_files += 1,
                Some(Change::Added | Change::Type) => part.new_files += 1,
                Some(_) => part.changed_files += 1,
            }
        }
        FileType::Symlink => part.symlinks += 1,
        _ => part.others += 1,
    }
}

/// The record of an entry that is only planned.
pub(super) fn planned_body(status: &Status) -> Body {
    match status.file_type() {
        FileType::RegularFile => {
            Body::File(FileBody { size: status.size, holes: 0, hash: None, stored: Stored::Cloned, changed: false })
        }
        FileType::Symlink => Body::Symlink(Vec::new()),
        FileType::Fifo => Body::Fifo,
        FileType::Socket => Body::Socket,
        _ => Body::Device(status.rdev.0, status.rdev.1),
    }
}

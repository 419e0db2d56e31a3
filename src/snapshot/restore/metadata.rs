//! Sets the metadata of an entry of the target as in the snapshot. `directory` does so for directories.

use super::context::Context;
use super::origin::Origin;
use super::place::Place;
use crate::fs::metadata::{Attributes, FileAttr, Refused, Xattr};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::snapshot::manifest::{Entry, Meta, Time};
use crate::tree::writer::{self, Version, pin};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd as _, OwnedFd};

/// Sets the snapshot's metadata on an existing inode. `seen` is its earlier status.
pub(super) fn set(
    context: &Context<'_>,
    target: &OwnedFd,
    entry: &Entry,
    seen: &Status,
    origin: &mut Origin<'_>,
) -> Result<Refused> {
    let place = origin.place;
    let is_same = |status: &Status| Version::of(seen).is(status) && status.nlink == seen.nlink;
    if entry.file().is_some()
        && let Ok(file) = openat::open_file(target.as_fd(), &entry.name)
    {
        if !is_same(&Status::of(&file)?) {
            return Err(Errno::STALE);
        }
        let atime = Status::of(origin.file()?)?.atime;
        let recorded = origin.recorded()?;
        let attributes = attributes(entry, atime, &recorded.xattrs);
        // Unlisted ones are reported by `xattrs`.
        let mut refused = writer::give(&context.creator, &file, &attributes, recorded.is_complete)?.refused;
        if entry.meta.nlink < 2 {
            refused.fileattr.add(entry.meta.fileattr().seal(&file));
        }
        return Ok(refused);
    }
    let node = pin(target.as_fd(), &entry.name, is_same)?;
    give_to_node(context, place, &node, entry, true, origin)
}

/// Sets the entry's metadata on an inode that must not be opened. `has_others`: it may have other attributes.
pub(super) fn give_to_node(
    context: &Context<'_>,
    place: &Place,
    node: &OwnedFd,
    entry: &Entry,
    has_others: bool,
    origin: &mut Origin<'_>,
) -> Result<Refused> {
    let atime = Status::at(&place.source, &entry.name).map_or(entry.meta.mtime, |status| status.atime);
    let recorded = origin.recorded()?;
    let attributes = attributes(entry, atime, &recorded.xattrs);
    // Unlisted ones are reported by `xattrs`.
    let given = writer::give_to_node(&context.creator, node, &attributes, has_others && recorded.is_complete)?;
    Ok(given.refused)
}

/// The attributes of an entry, except its project id, which is set when the file is in its place.
pub(super) fn attributes<'a>(entry: &Entry, atime: Time, xattrs: &'a [Xattr]) -> Attributes<'a> {
    let Meta { uid, gid, mode, mtime, flags, .. } = entry.meta;
    let fileattr = FileAttr { flags, project: None };
    Attributes { uid, gid, mode, atime, mtime, xattrs, fileattr }
}

//! Sets the metadata of an entry of the target as in the snapshot, whatever the rights of this process: refused
//! metadata is an error. `directory` does so for directories, setting it is in `set_metadata` of `tree::writer`.

use super::context::Context;
use super::origin::Origin;
use super::place::Place;
use crate::fs::metadata::{Attributes, Refused, Xattr};
use crate::fs::status::Status;
use crate::snapshot::manifest::{Entry, Meta, Time};
use crate::tree::writer::{Inode, Rights, Version};
use rustix::io::Result;

/// Sets the snapshot's metadata on an existing inode. `seen` is its earlier status.
pub(super) fn set(
    context: &Context<'_>,
    place: &Place,
    entry: &Entry,
    seen: &Status,
    origin: &mut Origin<'_>,
) -> Result<Refused> {
    // The names of one inode are restored one at a time, so only somebody else changes their number.
    let is_same = |status: &Status| Version::of(seen).is(status) && status.nlink == seen.nlink;
    let inode = place.slot(context, &entry.name).open_existing(&rights(&entry.meta), is_same)?;
    give(context, &inode, entry, (Some(seen), true), origin)
}

/// Sets the entry's metadata on an inode. `present`: the status of an existing inode. `has_others`: it may have other
/// attributes.
pub(super) fn give(
    context: &Context<'_>,
    inode: &Inode,
    entry: &Entry,
    (present, has_others): (Option<&Status>, bool),
    origin: &mut Origin<'_>,
) -> Result<Refused> {
    let atime = match inode {
        Inode::File(_) => Status::of(origin.file()?)?.atime,
        Inode::Node(_) => Status::at(&origin.place.source, &entry.name).map_or(entry.meta.mtime, |status| status.atime),
    };
    let recorded = origin.recorded()?;
    let attributes = attributes(&entry.meta, atime, &recorded.xattrs);
    // Unlisted ones are reported by `xattrs`.
    let removes_others = has_others && recorded.is_complete;
    if let Some(present) = present {
        inode.narrow(&context.creator, present, &attributes)?;
    }
    inode.give(&context.creator, &attributes, removes_others, entry.meta.nlink < 2).map(|given| given.refused)
}

/// The recorded rights of an inode.
pub(super) fn rights(meta: &Meta) -> Rights {
    let Meta { uid, gid, mode, nlink, .. } = *meta;
    Rights { uid, gid, mode, nlink }
}

/// The recorded attributes of an inode. The snapshot's tree has the time of the last access.
pub(super) fn attributes<'a>(meta: &Meta, atime: Time, xattrs: &'a [Xattr]) -> Attributes<'a> {
    let Meta { uid, gid, mode, mtime, .. } = *meta;
    Attributes { uid, gid, mode, atime, mtime, xattrs, fileattr: meta.fileattr() }
}

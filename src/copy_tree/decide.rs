//! What is to be done with one entry, from what stands in its place. Changes nothing.

use super::context::Context;
use super::entries::Pair;
use crate::beneath;
use crate::metadata::{self, FileAttr};
use crate::monitor::Change;
use crate::staging;
use crate::status::Status;
use rustix::fs::FileType;
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, OwnedFd};

/// What is to be done with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing is there: make it.
    Make,
    /// Make it in the place of what is there and is no directory.
    Replace(Change),
    /// The content is right, the metadata is not.
    Metadata,
    /// All is right.
    Leave,
    /// A directory stands there.
    Blocked,
}

impl Decision {
    /// The line of the plan.
    pub(super) fn change(self) -> Option<Change> {
        match self {
            Decision::Make => Some(Change::Added),
            Decision::Replace(change) => Some(change),
            Decision::Metadata => Some(Change::Metadata),
            Decision::Leave | Decision::Blocked => None,
        }
    }
}

/// Decides on an entry with this name in the destination.
///
/// Unchanged is what has the same type, size and time of modification to the nanosecond: a file gets that time last, before
/// it gets its name, so a killed run leaves none that looks finished and is not. Times can be set, and many files have one
/// of the same tick: so if the source's inode has changed since the copy's did, or if that was in this very run, both are read.
pub(super) fn decide(
    pair: &Pair<'_>,
    (name, status): (&[u8], &Status),
    (target_name, existing): (&[u8], Option<&Status>),
) -> Result<Decision> {
    let (Some(there), Some(target)) = (existing, pair.target()) else { return Ok(Decision::Make) };
    if there.is_same_inode(status) {
        return Ok(Decision::Leave);
    }
    if there.file_type() == FileType::Directory {
        return Ok(Decision::Blocked);
    }
    if there.file_type() != status.file_type() {
        return Ok(Decision::Replace(Change::Type));
    }
    let is_same = match status.file_type() {
        FileType::RegularFile if (there.size, there.mtime) != (status.size, status.mtime) => false,
        FileType::RegularFile if status.ctime < there.ctime && there.ctime < pair.context.begun => true,
        FileType::RegularFile => {
            let source = beneath::open_file(pair.directory.fd.as_fd(), name)?;
            let Ok(copy) = beneath::open_file(target.as_fd(), target_name) else {
                return Ok(Decision::Replace(Change::Content));
            };
            staging::has_same_content(source.as_fd(), copy.as_fd(), status.size, pair.context.monitor)?
        }
        FileType::Symlink => {
            let read = |dir: &OwnedFd, name: &[u8]| rustix::fs::readlinkat(dir, name, Vec::new());
            read(&pair.directory.fd, name)? == read(target, target_name)?
        }
        FileType::BlockDevice | FileType::CharacterDevice => there.rdev == status.rdev,
        _ => true,
    };
    if !is_same {
        return Ok(Decision::Replace(Change::Content));
    }
    if has_same_metadata(pair, (name, status), (target_name, there))? {
        return Ok(Decision::Leave);
    }
    // Metadata written to an inode is that of all its names. Names that the source knows of may be among them, but no more.
    Ok(if there.nlink <= status.nlink { Decision::Metadata } else { Decision::Replace(Change::Metadata) })
}

fn has_same_metadata(
    pair: &Pair<'_>,
    (name, status): (&[u8], &Status),
    (target_name, there): (&[u8], &Status),
) -> Result<bool> {
    let Some(target) = pair.target() else { return Ok(false) };
    if !has_same_status(pair.context, status, there) {
        return Ok(false);
    }
    let wanted = metadata::xattrs_at(&pair.directory.fd, name)?;
    if !has_same_xattrs(pair.context, wanted, metadata::xattrs_at(target, target_name)?) {
        return Ok(false);
    }
    // Flags are asked for by opening the file, so only where its inode changed after the copy's did.
    if status.file_type() != FileType::RegularFile || status.ctime < there.ctime {
        return Ok(true);
    }
    let flags = |dir: &OwnedFd, name| beneath::open_file(dir.as_fd(), name).map(FileAttr::of);
    match (flags(&pair.directory.fd, name), flags(target, target_name)) {
        (Ok(wanted), Ok(present)) => Ok(wanted.is_met_by(present)),
        (Err(Errno::NOENT), _) => Err(Errno::NOENT),
        _ => Ok(true),
    }
}

/// Whether two inodes have the same owner, mode and times, as far as this process may give them.
pub(super) fn has_same_status(context: &Context<'_>, wanted: &Status, there: &Status) -> bool {
    let is_root = context.creator.is_root();
    let mask = if is_root { 0o7777 } else { 0o1777 };
    let is_link = wanted.file_type() == FileType::Symlink;
    let is_owned = !is_root || (wanted.uid, wanted.gid) == (there.uid, there.gid);
    is_owned && wanted.mtime == there.mtime && (is_link || (wanted.mode ^ there.mode) & mask == 0)
}

/// Whether two inodes have the same attributes, as far as this process may give them.
pub(super) fn has_same_xattrs(
    context: &Context<'_>,
    mut wanted: Vec<metadata::Xattr>,
    mut there: Vec<metadata::Xattr>,
) -> bool {
    let is_root = context.creator.is_root();
    let counts = |(name, _): &metadata::Xattr| match is_root {
        // XFS shows its ACLs a second time, under these names.
        true => !name.starts_with(b"trusted.SGI_ACL_"),
        false => name.starts_with(b"user.") || name.starts_with(b"system."),
    };
    wanted.retain(counts);
    there.retain(counts);
    wanted == there
}

//! Decides what happens to one entry, from the entry at its place in the destination. Changes nothing.

use super::context::Context;
use super::entries::Pair;
use crate::fs::metadata::{self, FileAttr};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::fs::timestamp::{Clock, may_have_changed_since};
use crate::monitor::Change;
use crate::tree::writer;
use rustix::fs::FileType;
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, OwnedFd};

/// What happens to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// There is none yet: make it.
    Make,
    /// Replace the existing entry, which is not a directory.
    Replace(Change),
    /// The content is right, the metadata differs.
    Metadata,
    /// Everything is right.
    Leave,
    /// A directory is in its place.
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
/// A file is unchanged if its type, size and modification time are the same, to the nanosecond: a copy gets that time last,
/// when its data is on the disk, so no killed run and no power cut leaves a file that looks finished and is not. Programs can
/// set times, and files of the same tick have equal ones. So both files are read and compared, the copy from its disk, unless
/// the source's inode surely changed before the copy's did, and the copy's before this run began.
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
        FileType::RegularFile if there.size != status.size => false,
        // A run beside this one may have copied it, and have not given it its time yet.
        FileType::RegularFile if there.mtime != status.mtime && !is_of_this_run(pair, there) => false,
        FileType::RegularFile if there.mtime == status.mtime && is_surely_later(pair, there, status) => true,
        FileType::RegularFile => {
            let source = openat::open_file(pair.directory.fd.as_fd(), name)?;
            let Ok(copy) = openat::open_file(target.as_fd(), target_name) else {
                return Ok(Decision::Replace(Change::Content));
            };
            writer::has_same_content(source.as_fd(), copy.as_fd(), status.size, pair.context.monitor)?
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

/// Whether an existing copy surely changed later than its source did, and before this run began. Times are compared as coarsely
/// as they are stored, and those that servers stamp allow for their clocks.
fn is_surely_later(pair: &Pair<'_>, copy: &Status, source: &Status) -> bool {
    let clock = clock(pair, copy);
    let both = if clock == Clock::Local { pair.context.clocks.of(source.dev, &pair.directory.fd) } else { clock };
    !may_have_changed_since(source.ctime, copy.ctime, both) && !is_of_this_run(pair, copy)
}

/// Whether an existing copy may have changed since this run began.
fn is_of_this_run(pair: &Pair<'_>, copy: &Status) -> bool {
    may_have_changed_since(copy.ctime, pair.context.begun, clock(pair, copy))
}

/// The clock that stamps an existing copy.
fn clock(pair: &Pair<'_>, copy: &Status) -> Clock {
    pair.target().map_or(Clock::Remote, |target| pair.context.clocks.of(copy.dev, target))
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
    let (wanted, unread) = metadata::readable_xattrs_at(&pair.directory.fd, name);
    let (present, unknown) = metadata::readable_xattrs_at(target, target_name);
    if unread.or(unknown).is_some() || !has_same_xattrs(pair.context, wanted, present) {
        return Ok(false);
    }
    // Flags are asked for by opening the file, so only where its inode changed after the copy's did.
    if status.file_type() != FileType::RegularFile || is_surely_later(pair, there, status) {
        return Ok(true);
    }
    let flags = |dir: &OwnedFd, name| openat::open_file(dir.as_fd(), name).map(FileAttr::of);
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
        true => true,
        false => name.starts_with(b"user.") || name.starts_with(b"system."),
    };
    wanted.retain(counts);
    there.retain(counts);
    wanted == there
}

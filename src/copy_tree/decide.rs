//! Compares one entry with the entry in its place in the destination, to decide what to do with it. Changes nothing.
//! The rules are in `tree::writer`.

use super::context::Context;
use super::pair::Pair;
use crate::fs::metadata::{self, Creator, FileAttr, capabilities};
use crate::fs::openat;
use crate::fs::status::{Status, Time};
use crate::fs::timestamp::{Clock, may_have_changed_since};
use crate::tree::writer::{self, Compare, Decision, Metadata, Rights, WantedEntry};
use rustix::fs::FileType;
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, OwnedFd};

/// Within this time, in seconds, a run surely sets the times of a file that it copied: as soon as the next sync ends.
const LATELY: i64 = 60 * 60;

/// An entry of the source, and the place of its copy.
struct Comparison<'a> {
    pair: &'a Pair<'a>,
    target: &'a OwnedFd,
    name: &'a [u8],
    status: &'a Status,
    target_name: &'a [u8],
}

/// Decides what to do with an entry that has this name in the destination.
///
/// A file is unchanged if its type, size and modification time are the same, to the nanosecond. A copy gets that time
/// last, when its data is on the disk, so no killed run and no power cut leaves an incomplete file that looks complete.
/// But programs can set times, and files changed in the same tick have equal times. So both files are read and
/// compared, the copy from its disk, unless the source's inode surely changed before the copy's inode, and the copy's
/// inode before this run began.
pub(super) fn decide(
    pair: &Pair<'_>,
    (name, status): (&[u8], &Status),
    (target_name, existing): (&[u8], Option<&Status>),
) -> Result<Decision> {
    let Some(target) = pair.target() else { return Ok(Decision::Make) };
    if existing.is_some_and(|there| there.is_same_inode(status)) {
        return Ok(Decision::Leave);
    }
    let wanted = WantedEntry { rights: Rights::of(status), clears_directory: false };
    writer::decide(wanted, existing, &mut Comparison { pair, target, name, status, target_name })
}

impl Compare for Comparison<'_> {
    fn has_same_content(&mut self, there: &Status) -> Result<bool> {
        let Comparison { pair, target, name, status, target_name } = *self;
        match status.file_type() {
            FileType::RegularFile if there.size != status.size => Ok(false),
            FileType::RegularFile if there.mtime != status.mtime && !may_lack_its_time(pair, there, status) => {
                Ok(false)
            }
            FileType::RegularFile if there.mtime == status.mtime && is_surely_later(pair, there, status) => Ok(true),
            FileType::RegularFile => {
                let source = openat::open_file(pair.directory.fd.as_fd(), name)?;
                let Ok(copy) = openat::open_file(target.as_fd(), target_name) else { return Ok(false) };
                writer::has_same_content(source.as_fd(), copy.as_fd(), status.size, pair.context.monitor)
            }
            FileType::Symlink => {
                let read = |dir: &OwnedFd, name: &[u8]| rustix::fs::readlinkat(dir, name, Vec::new());
                Ok(read(&pair.directory.fd, name)? == read(target, target_name)?)
            }
            FileType::BlockDevice | FileType::CharacterDevice => Ok(there.rdev == status.rdev),
            _ => Ok(true),
        }
    }

    fn metadata(&mut self, there: &Status) -> Result<Metadata> {
        Ok(if self.has_same_metadata(there)? { Metadata::Same } else { Metadata::Differs })
    }

    fn creator(&self) -> &Creator {
        &self.pair.context.creator
    }

    fn keeps_owners(&self) -> bool {
        // A dry run makes no file to find out. It shows the same either way.
        self.pair.context.options.dry_run || self.pair.slot(self.name).keeps_owners()
    }

    fn adds_capabilities(&mut self) -> Result<bool> {
        let (wanted, _) = metadata::readable_xattrs_at(&self.pair.directory.fd, self.name);
        let present = || metadata::readable_xattrs_at(self.target, self.target_name).0;
        Ok(capabilities(&wanted).is_some() && capabilities(&wanted) != capabilities(&present()))
    }
}

impl Comparison<'_> {
    fn has_same_metadata(&self, there: &Status) -> Result<bool> {
        let Comparison { pair, target, name, status, target_name } = *self;
        if !has_same_status(pair.context, status, there) {
            return Ok(false);
        }
        let (wanted, unread) = metadata::readable_xattrs_at(&pair.directory.fd, name);
        let (present, unknown) = metadata::readable_xattrs_at(target, target_name);
        if unread.or(unknown).is_some() || !has_same_xattrs(pair.context, wanted, present) {
            return Ok(false);
        }
        // The file must be opened to read its flags, so they are only read if its inode may have changed after the
        // copy's inode.
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
}

/// Whether an existing copy surely changed later than its source, and before this run began. Times are compared with
/// the resolution at which they are stored. Times from servers are compared with allowance for their clocks.
fn is_surely_later(pair: &Pair<'_>, copy: &Status, source: &Status) -> bool {
    let clock = clock(pair, copy);
    let both = if clock == Clock::Local { pair.context.clocks.of(source.dev, &pair.directory.fd) } else { clock };
    !may_have_changed_since(source.ctime, copy.ctime, both) && !is_of_this_run(pair, copy)
}

/// Whether an existing copy may have changed, or got its place with its directory, since this run began.
fn is_of_this_run(pair: &Pair<'_>, copy: &Status) -> bool {
    pair.place().appeared || may_have_changed_since(copy.ctime, pair.context.begun, clock(pair, copy))
}

/// Whether an existing file may be a complete copy of another run that did not set its time yet, because it changed
/// during this run. Two runs must agree on one inode for several names, so for these a change not long before also
/// counts.
fn may_lack_its_time(pair: &Pair<'_>, copy: &Status, source: &Status) -> bool {
    let lately = Time { seconds: pair.context.begun.seconds.saturating_sub(LATELY), ..pair.context.begun };
    let is_joined = source.nlink > 1 && may_have_changed_since(copy.ctime, lately, clock(pair, copy));
    is_joined || is_of_this_run(pair, copy)
}

/// The clock that stamps an existing copy.
fn clock(pair: &Pair<'_>, copy: &Status) -> Clock {
    pair.target().map_or(Clock::Remote, |target| pair.context.clocks.of(copy.dev, target))
}

/// Whether two inodes have the same owner, mode and times, as far as this process can set them.
pub(super) fn has_same_status(context: &Context<'_>, wanted: &Status, there: &Status) -> bool {
    let is_root = context.creator.is_root();
    let mask = if is_root { 0o7777 } else { 0o1777 };
    let is_link = wanted.file_type() == FileType::Symlink;
    let is_owned = !is_root || (wanted.uid, wanted.gid) == (there.uid, there.gid);
    is_owned && wanted.mtime == there.mtime && (is_link || (wanted.mode ^ there.mode) & mask == 0)
}

/// Whether two inodes have the same attributes, as far as this process can set them.
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

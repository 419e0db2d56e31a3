//! What must be done with one entry, given what is in its place. Changes nothing.

use super::origin::Origin;
use super::place::Place;
use super::{Context, Overwrite, Stats, content};
use crate::fs::filesystem::Kind;
use crate::fs::metadata::{self, FileAttr};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::monitor::Change;
use crate::snapshot::manifest::{Body, Entry};
use crate::tree::writer::Version;
use rustix::fs::FileType;
use rustix::io::{Errno, Result};
use std::os::fd::AsFd as _;

/// What must be done with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing is there: make it.
    Make,
    /// Make it in the place of what is there and is no directory, for this difference.
    Replace(Change),
    /// Delete the directory that is there, then make it.
    Clear,
    /// The content is right, the metadata is not.
    Metadata,
    /// All is right, or it must stay.
    Leave,
    /// The content is right. The metadata is not, but to replace the inode for that would lose attributes.
    Keep,
    /// A directory is there that may not be deleted.
    Blocked,
}

impl Decision {
    /// What has the entry's name and may be replaced. A directory goes before that.
    pub(super) fn replaces(self, existing: Option<&Status>) -> Option<Version> {
        match self {
            Decision::Replace(_) => existing.map(Version::of),
            _ => None,
        }
    }

    /// The line of the plan.
    pub(super) fn change(self) -> Option<Change> {
        match self {
            Decision::Make => Some(Change::Added),
            Decision::Replace(change) => Some(change),
            Decision::Clear => Some(Change::Type),
            Decision::Metadata => Some(Change::Metadata),
            Decision::Leave | Decision::Keep | Decision::Blocked => None,
        }
    }
}

/// What stands in an entry's place, if anything does.
pub(super) fn existing(place: &Place, name: &[u8]) -> Result<Option<Status>> {
    let Some(target) = &place.target else { return Ok(None) };
    match Status::at(target, name) {
        Ok(status) => Ok(Some(status)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Decides on an entry. Both content and metadata are looked at only as far as the answer needs it.
pub(super) fn decide(
    context: &Context<'_>,
    place: &Place,
    entry: &Entry,
    (existing, overwrite): (Option<&Status>, Overwrite),
    origin: &mut Origin<'_>,
    stats: &mut Stats,
) -> Result<Decision> {
    let Some(status) = existing else { return Ok(Decision::Make) };
    if overwrite == Overwrite::Never {
        return Ok(Decision::Leave);
    }
    if status.file_type() == FileType::Directory {
        return Ok(if context.options.delete { Decision::Clear } else { Decision::Blocked });
    }
    if status.file_type() != FileType::from_raw_mode(entry.meta.mode) {
        return Ok(Decision::Replace(Change::Type));
    }
    let Some(target) = &place.target else { return Ok(Decision::Make) };
    let is_same = match &entry.body {
        Body::File(body) => content::is_same(context, place, (entry, body), (status, overwrite), origin, stats)?,
        Body::Symlink(to) => {
            rustix::fs::readlinkat(target, entry.name.as_slice(), Vec::new())?.as_bytes() == to.as_slice()
        }
        Body::Device(major, minor) => status.rdev == (*major, *minor),
        Body::Fifo | Body::Socket => true,
    };
    if !is_same {
        return Ok(Decision::Replace(Change::Content));
    }
    let present = fileattr(place, entry);
    let must_be_new = status.size > 0 && place.device.kind == Some(Kind::Btrfs) && has_other_nocow(entry, present);
    if !must_be_new && entry.meta.fileattr().is_met_by(present) && has_same_metadata(place, entry, status, origin)? {
        return Ok(Decision::Leave);
    }
    // Writing metadata to an inode that has other names would change those too. Names that the snapshot knows of may be
    // among them, but no more than those.
    let is_alone = status.nlink == 1 || status.nlink <= entry.meta.nlink;
    if is_alone && !must_be_new {
        return Ok(Decision::Metadata);
    }
    // With another inode, attributes that nobody can list would be lost, though the content is right.
    Ok(match metadata::has_unlisted_xattrs_at(target, &entry.name) {
        true => Decision::Keep,
        false => Decision::Replace(Change::Metadata),
    })
}

/// Flags and project id of the file that is there; nothing of other kinds of entries, and where the snapshot knows none.
fn fileattr(place: &Place, entry: &Entry) -> FileAttr {
    let is_asked = entry.file().is_some() && entry.meta.fileattr() != FileAttr::default();
    let Some(target) = place.target.as_ref().filter(|_| is_asked) else { return FileAttr::default() };
    openat::open_file(target.as_fd(), &entry.name).map_or(FileAttr::default(), FileAttr::of)
}

/// Whether a file is written in place that should not be, or the other way round. Only an empty one could still change.
fn has_other_nocow(entry: &Entry, present: FileAttr) -> bool {
    let nocow = |flags: u32| flags & metadata::NOCOW;
    entry.meta.flags.zip(present.flags).is_some_and(|(wanted, present)| nocow(wanted) != nocow(present))
}

fn has_same_metadata(place: &Place, entry: &Entry, status: &Status, origin: &mut Origin<'_>) -> Result<bool> {
    let meta = &entry.meta;
    let is_link = status.file_type() == FileType::Symlink;
    let same_mode = is_link || status.permissions() == meta.mode & 0o7777;
    if (status.uid, status.gid) != (meta.uid, meta.gid) || !content::has_mtime(status, meta.mtime) || !same_mode {
        return Ok(false);
    }
    let Some(target) = &place.target else { return Ok(false) };
    let (present, unread) = metadata::readable_xattrs_at(target, &entry.name);
    Ok(unread.is_none() && origin.recorded()?.is_met_by(&present))
}

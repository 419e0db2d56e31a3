//! Compares one entry with the existing entry in its place and decides what happens. Changes nothing. The rules
//! themselves are in `tree::writer`.

use super::content;
use super::context::Context;
use super::options::Overwrite;
use super::origin::Origin;
use super::place::Place;
use super::stats::Stats;
use crate::fs::filesystem::Kind;
use crate::fs::metadata::{self, Creator, FileAttr, capabilities};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::snapshot::manifest::{Body, Entry};
use crate::tree::writer::{self, Compare, Decision, Metadata, WantedEntry};
use rustix::fs::FileType;
use rustix::io::Result;
use std::os::fd::{AsFd as _, OwnedFd};

/// An entry of the snapshot, and where it is restored.
struct Comparison<'a, 'o> {
    context: &'a Context<'a>,
    place: &'a Place,
    target: &'a OwnedFd,
    entry: &'a Entry,
    overwrite: Overwrite,
    origin: &'a mut Origin<'o>,
    stats: &'a mut Stats,
}

/// Decides on an entry. Content and metadata are compared only as far as the decision needs it.
pub(super) fn decide(
    context: &Context<'_>,
    place: &Place,
    entry: &Entry,
    (existing, overwrite): (Option<&Status>, Overwrite),
    origin: &mut Origin<'_>,
    stats: &mut Stats,
) -> Result<Decision> {
    let Some(target) = &place.dir.fd else { return Ok(Decision::Make) };
    if existing.is_some() && overwrite == Overwrite::Never {
        return Ok(Decision::Leave);
    }
    let wanted = WantedEntry { rights: super::metadata::rights(&entry.meta), clears_directory: context.options.delete };
    writer::decide(wanted, existing, &mut Comparison { context, place, target, entry, overwrite, origin, stats })
}

/// Whether an entry of this type that is there is what the snapshot has. Of a file, only the size is compared.
pub(super) fn is_same_node(body: &Body, dir: &OwnedFd, name: &[u8], there: &Status) -> Result<bool> {
    Ok(match body {
        Body::File(file) => there.size == file.size,
        Body::Symlink(to) => rustix::fs::readlinkat(dir, name, Vec::new())?.as_bytes() == to.as_slice(),
        Body::Device(major, minor) => there.rdev == (*major, *minor),
        Body::Fifo | Body::Socket => true,
    })
}

impl Compare for Comparison<'_, '_> {
    fn has_same_content(&mut self, there: &Status) -> Result<bool> {
        match &self.entry.body {
            Body::File(body) => {
                let (wanted, present) = ((self.entry, body), (there, self.overwrite));
                content::is_same(self.context, self.place, wanted, present, self.origin, self.stats)
            }
            body => is_same_node(body, self.target, &self.entry.name, there),
        }
    }

    fn metadata(&mut self, there: &Status) -> Result<Metadata> {
        let (place, entry) = (self.place, self.entry);
        let present = fileattr(self.target, entry);
        let is_btrfs = place.dir.device.kind == Some(Kind::Btrfs);
        if there.size > 0 && is_btrfs && has_other_nocow(entry, present) {
            return Ok(Metadata::NeedsNewInode);
        }
        let is_same = entry.meta.fileattr().is_met_by(present) && self.has_same_metadata(there)?;
        Ok(if is_same { Metadata::Same } else { Metadata::Differs })
    }

    fn creator(&self) -> &Creator {
        &self.context.creator
    }

    fn keeps_owners(&self) -> bool {
        // A dry run makes no file to find out. It shows the same either way.
        self.context.options.dry_run || self.place.slot(self.context, &self.entry.name).keeps_owners()
    }

    fn adds_capabilities(&mut self) -> Result<bool> {
        let wanted = capabilities(&self.origin.recorded()?.xattrs);
        let present = || metadata::readable_xattrs_at(self.target, &self.entry.name).0;
        Ok(wanted.is_some() && wanted != capabilities(&present()))
    }

    fn would_lose_attributes(&mut self) -> bool {
        // Attributes that the kernel does not list.
        metadata::has_unlisted_xattrs_at(self.target, &self.entry.name)
    }
}

impl Comparison<'_, '_> {
    fn has_same_metadata(&mut self, there: &Status) -> Result<bool> {
        let meta = &self.entry.meta;
        let is_link = there.file_type() == FileType::Symlink;
        let same_mode = is_link || there.permissions() == meta.mode & 0o7777;
        if (there.uid, there.gid) != (meta.uid, meta.gid) || !there.has_mtime(meta.mtime) || !same_mode {
            return Ok(false);
        }
        let (present, unread) = metadata::readable_xattrs_at(self.target, &self.entry.name);
        Ok(unread.is_none() && self.origin.recorded()?.is_met_by(&present))
    }
}

/// Flags and project id of an existing file. Empty for other types of entries, and if the snapshot records none.
fn fileattr(target: &OwnedFd, entry: &Entry) -> FileAttr {
    if entry.file().is_none() || entry.meta.fileattr() == FileAttr::default() {
        return FileAttr::default();
    }
    openat::open_file(target.as_fd(), &entry.name).map_or(FileAttr::default(), FileAttr::of)
}

/// Whether only one of the two files is written in place (no copy-on-write). Only an empty file could still change
/// that.
fn has_other_nocow(entry: &Entry, present: FileAttr) -> bool {
    let nocow = |flags: u32| flags & metadata::NOCOW;
    entry.meta.flags.zip(present.flags).is_some_and(|(wanted, present)| nocow(wanted) != nocow(present))
}

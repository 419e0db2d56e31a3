//! One file of the snapshot, filled from an open source: cloned, or copied with its holes.

use super::context::{Target, is_no_name};
use super::record::{Brought, incomplete, keep};
use super::seen::Seen;
use super::staged::Staged;
use super::stats::Stats;
use crate::content::copy::{self, CloneError, Copied, CopyError, Reason};
use crate::error::Result;
use crate::extents::extent::ExtentFlags;
use crate::fs::filesystem::Kind;
use crate::fs::metadata::{Attributes, FileAttr, Refused, Xattr};
use crate::fs::sparse;
use crate::fs::status::Status;
use crate::monitor::{Amount, Change};
use crate::snapshot::manifest::{Body, Entry, FileBody, Meta, Stored};
use crate::sys::fiemap;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// A source that has been opened, with the status that it must still have when all is done.
pub(super) struct Source {
    pub(super) fd: OwnedFd,
    pub(super) status: Status,
    pub(super) xattrs: Vec<Xattr>,
    pub(super) fileattr: FileAttr,
    /// Whether it may change after it is read without a change of its times.
    pub(super) recheck: bool,
    /// Why not all of its extended attributes could be read.
    pub(super) unread: Option<Errno>,
}

impl Source {
    /// What its copy in the snapshot is to have besides its content.
    pub(super) fn attributes(&self, staged: &Staged) -> Attributes<'_> {
        Attributes::of(&self.status, &self.xattrs).with(staged.takes(self.fileattr))
    }

    /// The record of its metadata, with what the snapshot's tree did not take.
    pub(super) fn meta(&self, refused: Refused) -> Meta {
        let mut meta = Meta::of(&self.status, !self.xattrs.is_empty() || self.unread.is_some()).with(self.fileattr);
        meta.recheck = self.recheck;
        keep(&mut meta, refused);
        if self.unread.is_some() {
            incomplete(&mut meta);
        }
        meta
    }
}

impl Target<'_> {
    /// Creates the file and clones the source into it. Otherwise nothing stays of it, and the reason says why it must be
    /// copied.
    ///
    /// # Errors
    /// One that every further file would meet.
    pub(super) fn clone_source(
        &self,
        seen: &Seen<'_>,
        source: &Source,
    ) -> Result<std::result::Result<Brought, Reason>> {
        let Source { fd, status, .. } = source;
        if status.size > 0
            && let Some(reason) = self.staged.refusal(status.dev)
        {
            return Ok(Err(reason));
        }
        let refused = match self.try_clone(seen.name, source) {
            Ok((file, refused)) => {
                let mut cost = Stats::default();
                let body = self.cloned_body(&file, fd, seen, status, &mut cost);
                let entry = Entry { name: seen.name.to_vec(), meta: source.meta(refused), body: Body::File(body) };
                return Ok(Ok(Brought { entry, cost }));
            }
            // Another entry has the name, on a filesystem that takes both for the same: that entry stays.
            Err(CloneError::Failed(Errno::EXIST)) => return Ok(Err(Reason::Failed)),
            Err(refused) => refused,
        };
        // What has the name already is another file: its name differs in case only, where that makes no difference.
        if !matches!(refused, CloneError::Failed(Errno::EXIST)) {
            self.withdraw(seen.name)?;
        }
        match refused {
            CloneError::Copy(reason) => Ok(Err(reason)),
            CloneError::Failed(errno) if copy::is_fatal(errno) => Err(self.cannot_make(seen.name, errno)),
            // Only of this file, it seems: the copy that follows meets it too, and names it, or succeeds.
            CloneError::Failed(_) => Ok(Err(Reason::Failed)),
        }
    }

    fn try_clone(&self, name: &[u8], source: &Source) -> std::result::Result<(OwnedFd, Refused), CloneError> {
        let Source { fd, status, .. } = source;
        let attributes = source.attributes(self.staged);
        let file = self.create(name, &attributes).map_err(CloneError::Failed)?;
        if status.size > 0 {
            self.staged.ladder.clone(fd, status.dev, &file)?;
        }
        let refused = self.staged.creator.finish(&file, status.mode, &attributes).map_err(CloneError::Failed)?;
        Ok((file, refused))
    }

    /// The record of a cloned file, and its share in the counts.
    fn cloned_body(
        &self,
        file: &OwnedFd,
        source: &OwnedFd,
        seen: &Seen<'_>,
        status: &Status,
        cost: &mut Stats,
    ) -> FileBody {
        let old = seen.old.as_ref().and_then(Entry::file).filter(|_| seen.change.is_none());
        let size = status.size;
        let holes = match old {
            Some(old) => old.holes,
            None if status.allocated < size => sparse::holes(source, size).unwrap_or(0),
            None => 0,
        };
        let stored = match old.map(|old| old.stored) {
            Some(stored @ (Stored::Inline | Stored::Cloned)) => stored,
            _ if is_inline(file, size, self.staged) => Stored::Inline,
            _ => Stored::Cloned,
        };
        let data = size.saturating_sub(holes);
        cost.bytes = size;
        cost.hole_bytes = holes;
        match stored {
            Stored::Inline => cost.inline_bytes = data,
            _ => cost.cloned_bytes = data,
        }
        if matches!(seen.change, Some(Change::Content | Change::Metadata)) {
            cost.range_shared_bytes = cost.cloned_bytes;
        }
        self.context.monitor.advance(Amount { files: 0, bytes: size });
        FileBody { size, holes, hash: old.and_then(|old| old.hash), stored, changed: false }
    }

    /// Copies the content, holes kept.
    pub(super) fn copy_source(
        &self,
        seen: &Seen<'_>,
        source: &Source,
        reason: Reason,
    ) -> std::result::Result<Brought, CopyError> {
        let attributes = source.attributes(self.staged);
        let file = self.create(seen.name, &attributes).map_err(CopyError::Destination)?;
        let copied = self.copy_content(source, &file)?;
        self.copied(seen, source, &file, &copied, reason)
    }

    /// Completes a file whose content was copied.
    pub(super) fn copied(
        &self,
        seen: &Seen<'_>,
        source: &Source,
        file: &OwnedFd,
        copied: &Copied,
        reason: Reason,
    ) -> std::result::Result<Brought, CopyError> {
        let status = &source.status;
        let attributes = source.attributes(self.staged);
        let refused = self.staged.creator.finish(file, status.mode, &attributes).map_err(CopyError::Destination)?;
        let mut cost = Stats {
            bytes: copied.data + copied.holes,
            copied_bytes: copied.data,
            read_bytes: copied.read,
            hole_bytes: copied.holes,
            ..Stats::default()
        };
        if copied.data > 0 {
            cost.reasons.insert(reason, copied.data);
        }
        let meta = source.meta(refused);
        let body = FileBody {
            size: copied.data + copied.holes,
            holes: copied.holes,
            hash: copied.hash,
            stored: Stored::Copied,
            changed: false,
        };
        Ok(Brought { entry: Entry { name: seen.name.to_vec(), meta, body: Body::File(body) }, cost })
    }

    /// Creates a file that is to get these attributes, to be written and read, ready for its content.
    pub(super) fn create(&self, name: &[u8], attributes: &Attributes<'_>) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.above, name, flags, Mode::from_bits_truncate(attributes.mode & 0o777))?;
        self.staged.creator.prepare(&file, attributes)?;
        Ok(file)
    }

    /// Takes a file back that was made a moment ago.
    pub(super) fn withdraw(&self, name: &[u8]) -> Result<()> {
        match rustix::fs::unlinkat(self.above, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) if is_no_name(errno) => Ok(()),
            Err(errno) => Err(self.cannot_make(name, errno)),
        }
    }
}

/// Whether Btrfs keeps a cloned file beside its metadata. No other filesystem that clones does.
pub(super) fn is_inline(file: &OwnedFd, size: u64, staged: &Staged) -> bool {
    staged.filesystem.kind == Kind::Btrfs
        && (1..=staged.filesystem.block_size).contains(&size)
        && matches!(fiemap::first_extent(file), Ok(Some(extent)) if extent.flags.contains(ExtentFlags::DATA_INLINE))
}

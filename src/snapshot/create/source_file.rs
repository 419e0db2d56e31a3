//! An open file of the source: its status, attributes and flags. `new_file` makes its copy.

use super::added_entry::{incomplete, keep};
use super::context::Context;
use super::source_entry::SourceEntry;
use super::staged::Staged;
use crate::content::hash;
use crate::fs::metadata::{self, Attributes, FileAttr, Refused, Xattr};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::snapshot::manifest::Meta;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An open source file, with the status that it must still have when its copy is complete.
pub(super) struct SourceFile {
    pub(super) fd: OwnedFd,
    pub(super) status: Status,
    pub(super) xattrs: Vec<Xattr>,
    pub(super) fileattr: FileAttr,
    /// Whether it may change after it is read while its times stay the same.
    pub(super) recheck: bool,
    /// Why not all of its extended attributes could be read.
    pub(super) unread: Option<Errno>,
}

impl SourceFile {
    /// The attributes that its copy in the snapshot gets.
    pub(super) fn attributes(&self, staged: &Staged) -> Attributes<'_> {
        Attributes::of(&self.status, &self.xattrs).with(staged.takes(self.fileattr))
    }

    /// The record of its metadata, with the metadata that the snapshot's tree refused.
    pub(super) fn meta(&self, refused: Refused) -> Meta {
        let mut meta = Meta::of(&self.status, !self.xattrs.is_empty() || self.unread.is_some()).with(self.fileattr);
        meta.recheck = self.recheck;
        keep(&mut meta, refused);
        if self.unread.is_some() {
            incomplete(&mut meta);
        }
        meta
    }

    /// The same source with the content of another open file on the device `dev`.
    pub(super) fn with_content(&self, fd: OwnedFd, dev: u64) -> SourceFile {
        let status = Status { dev, ..self.status };
        let SourceFile { fileattr, recheck, unread, .. } = *self;
        SourceFile { fd, status, xattrs: self.xattrs.clone(), fileattr, recheck, unread }
    }

    /// Whether the source still has the status that it was opened with.
    pub(super) fn is_untouched(&self) -> bool {
        Status::of(&self.fd).is_ok_and(|now| now.is_untouched_since(&self.status))
    }

    /// Whether its content is hashed: the user wants hashes, and its holes are not too large.
    pub(super) fn is_hashed(&self, context: &Context<'_>) -> bool {
        context.hashes() && hash::is_hashed(&self.fd, &self.status).unwrap_or(true)
    }
}

/// Opens a source file and reads its attributes. Its status is that of the entry as found. After reading, the caller
/// checks whether the file still has that status.
pub(super) fn open_as_found(
    context: &Context<'_>,
    directory: BorrowedFd<'_>,
    found: &SourceEntry<'_>,
) -> rustix::io::Result<SourceFile> {
    let fd = openat::open_file(directory, found.name)?;
    let unchanged = found.old.as_ref().filter(|_| found.change.is_none()).map(|old| &old.meta);
    let has_none = unchanged.is_some_and(|old| !old.has_xattrs);
    let xattrs = if has_none { Vec::new() } else { metadata::xattrs(&fd)? };
    let fileattr = context.fileattr(fd.as_fd(), found.status.dev, unchanged);
    Ok(SourceFile { fd, status: found.status, xattrs, fileattr, recheck: false, unread: None })
}

/// Opens a source file in its present state. `None` if it is no longer a regular file; nothing of it was read then.
pub(super) fn open_now(
    context: &Context<'_>,
    directory: BorrowedFd<'_>,
    name: &[u8],
) -> rustix::io::Result<Option<SourceFile>> {
    let fd = openat::open_file(directory, name)?;
    let status = Status::of(&fd)?;
    if status.file_type() != FileType::RegularFile {
        return Ok(None);
    }
    let recheck = context.flusher.flush(&fd, &status).is_err();
    let (xattrs, unread) = metadata::readable_xattrs(&fd);
    let fileattr = context.fileattr(fd.as_fd(), status.dev, None);
    Ok(Some(SourceFile { fd, status, xattrs, fileattr, recheck, unread }))
}

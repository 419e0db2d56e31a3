//! Changed files of a staging tree that began as a snapshot of the last tree. Such a file keeps its inode and its name,
//! and only its content and metadata change. So Btrfs copies the leaf of this inode, and not also those of its
//! directory and of a new inode. The staging tree is private, so nobody sees a half-changed file.

use super::source_entry::SourceEntry;
use super::staged::Staged;
use crate::fs::metadata::{Attributes, FileAttr};
use crate::fs::status::Status;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::{Errno, Result};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Whether the last version of a file stays in the staging tree until this version replaces its content.
pub(super) fn is_reused(staged: &Staged, found: &SourceEntry<'_>) -> bool {
    staged.based && found.in_place
}

/// Opens the last version of a file in the directory `above` of the staging tree, and empties it. It has the owner and
/// permissions of a new file then. `None` if it is not reused, or no longer there.
pub(super) fn emptied(
    staged: &Staged,
    above: BorrowedFd<'_>,
    found: &SourceEntry<'_>,
    attributes: &Attributes<'_>,
) -> Result<Option<OwnedFd>> {
    let Some((file, status)) = open(staged, above, found)? else { return Ok(None) };
    rustix::fs::ftruncate(&file, 0)?;
    staged.creator.make_like_new(&file, &status, attributes.mode)?;
    Ok(Some(file))
}

/// Like [`emptied`], but the file keeps its content, which must be that of `last`.
pub(super) fn with_content(
    staged: &Staged,
    above: BorrowedFd<'_>,
    found: &SourceEntry<'_>,
    attributes: &Attributes<'_>,
    last: &Status,
) -> Result<Option<OwnedFd>> {
    if attributes.fileattr.decides_storage() {
        return Ok(None);
    }
    let Some((file, status)) = open(staged, above, found)? else { return Ok(None) };
    // An earlier try has not changed it.
    if (status.size, status.mtime) != (last.size, last.mtime) {
        return Ok(None);
    }
    staged.creator.make_like_new(&file, &status, attributes.mode)?;
    Ok(Some(file))
}

/// Opens the last version of a reused file. If it is not like a new file, which would have no flags, it is removed: the
/// kernel itself marks files that it could not compress, and all files of a filesystem mounted with `nodatacow`.
fn open(staged: &Staged, above: BorrowedFd<'_>, found: &SourceEntry<'_>) -> Result<Option<(OwnedFd, Status)>> {
    if !is_reused(staged, found) {
        return Ok(None);
    }
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(above, found.name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let status = Status::of(&file)?;
    let is_plain = status.file_type() == FileType::RegularFile && status.nlink == 1;
    if is_plain && FileAttr::of(&file).is_met_by(FileAttr::default()) {
        return Ok(Some((file, status)));
    }
    rustix::fs::unlinkat(above, found.name, AtFlags::empty())?;
    Ok(None)
}

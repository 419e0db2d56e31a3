//! Obstacles to an entry in the target: whether they may go, and their errors.

use crate::error::{Error, Result};
use rustix::fs::{Access, AtFlags, CWD, StatxAttributes, StatxFlags, access, statx};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Removes a file, a link or a special file, if there is one.
pub(super) fn vacate(to: &Path) -> Result<()> {
    match fs::symlink_metadata(to) {
        Ok(found) if found.is_dir() => Err(in_the_way(to)),
        _ => match fs::remove_file(to) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(Error::io("replace", to, cause)),
            _ => Ok(()),
        },
    }
}

/// Whether an entry that is not a directory could be removed.
pub(super) fn removable(to: &Path) -> Result<()> {
    let failed = |cause: rustix::io::Errno| Err(Error::io("replace", to, cause));
    let fixed = |path: &Path, attributes: StatxAttributes| {
        let found = statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE);
        found.is_ok_and(|found| found.stx_attributes.intersects(attributes))
    };
    if fixed(to, StatxAttributes::IMMUTABLE | StatxAttributes::APPEND) {
        return failed(rustix::io::Errno::PERM);
    }
    let Some(parent) = to.parent() else { return Ok(()) };
    if fixed(parent, StatxAttributes::APPEND) {
        return failed(rustix::io::Errno::PERM);
    }
    access(parent, Access::WRITE_OK | Access::EXEC_OK).or_else(failed)
}

/// Gives a file another name.
pub(super) fn link(first: &Path, to: &Path) -> Result<()> {
    let inode = |found: Metadata| (found.dev(), found.ino());
    let own = fs::symlink_metadata(first).map_err(|cause| Error::io("link", first, cause))?;
    if !own.is_file() {
        return Err(Error::failed("link").at(first).because(io::Error::other("something else has this name")));
    }
    let own = inode(own);
    if fs::symlink_metadata(to).map(inode).is_ok_and(|other| other == own) {
        return Ok(());
    }
    vacate(to)?;
    fs::hard_link(first, to).map_err(|cause| Error::io("link", to, cause))
}

/// The error of a directory where something else shall be.
pub(super) fn in_the_way(to: &Path) -> Error {
    let error = Error::failed("replace").at(to).because(io::Error::other("a directory is in the way"));
    error.hint("move it away, or restore into a new directory").with_code("exists")
}

/// The error of a symbolic link where a directory shall be. It may lead out of the target.
pub(super) fn link_in_the_way(to: &Path) -> Error {
    let error = Error::failed("restore into").at(to).because(io::Error::other("it is a symbolic link"));
    error.hint("remove it, or restore into a new directory").with_code("exists")
}

/// The error of something else where an entry was restored.
pub(super) fn exchanged(to: &Path) -> Error {
    Error::failed("set the metadata of").at(to).because(io::Error::other("something else has this name"))
}

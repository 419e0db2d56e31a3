//! An entry that will be deleted: its type, how to open it, and the error if it stays. A directory with a mount on it
//! is not opened.

use crate::error::Error;
use crate::fs::metadata::set_permissions;
use crate::fs::openat::retrying;
use crate::fs::status::Status;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, Result};
use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// Opens a directory so that its entries can be removed. Fails if it is a link, or a mount point (`XDEV`).
pub(super) fn open_for_deletion(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    if !rustix::process::geteuid().is_root() {
        allow(&open(parent, name, OFlags::PATH)?)?;
    }
    open(parent, name, OFlags::RDONLY)
}

/// Opens a directory with these flags. Fails if it is a link, or a mount point (`XDEV`).
pub(super) fn open(parent: BorrowedFd<'_>, name: &CStr, flags: OFlags) -> Result<OwnedFd> {
    let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    retrying(|| fs::openat2(parent, name, flags, Mode::empty(), resolve))
}

/// Gives the owner all rights to a directory that lacks them. Never changes the target of a link.
pub(crate) fn allow_all(parent: BorrowedFd<'_>, name: &CStr) -> Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    allow(&fs::openat(parent, name, flags, Mode::empty())?)
}

/// The same for an open directory.
fn allow(dir: &OwnedFd) -> Result<()> {
    if Status::of(dir)?.permissions() & 0o700 != 0o700 {
        set_permissions(dir, 0o700)?;
    }
    Ok(())
}

/// Whether an entry is a directory.
pub(super) fn is_dir(parent: BorrowedFd<'_>, name: &CStr) -> bool {
    fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// The error for an entry that could not be deleted.
pub(super) fn refused(path: &Path, errno: Errno) -> Error {
    let error = Error::io("delete", path, errno);
    match errno {
        Errno::BUSY | Errno::XDEV => error.hint("something is mounted there; unmount it first"),
        Errno::STALE => error.hint("it was moved while it was being deleted"),
        Errno::PERM if rustix::process::geteuid().is_root() => error.hint("it may be immutable: see lsattr(1)"),
        _ => error,
    }
}

/// Whether a name in a listing is `.` or `..`.
pub(super) fn is_dot(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

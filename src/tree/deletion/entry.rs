//! An entry that is about to be deleted: what it is, and how to open it.

use crate::fs::openat;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Opens a directory so that its entries can be taken out.
pub(super) fn open_for_deletion(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    if !rustix::process::geteuid().is_root() {
        allow_all(parent, name)?;
    }
    openat::open_subdir(parent, name)
}

/// Gives the owner all rights to a directory, and never to what a link points at.
pub(crate) fn allow_all(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = fs::openat(parent, name, flags, Mode::empty())?;
    // fchmod(2) does not take a descriptor of this kind; its name under /proc does not pass through a link either.
    fs::chmod(format!("/proc/self/fd/{}", dir.as_raw_fd()), Mode::RWXU)
}

/// Whether an entry is a directory.
pub(super) fn is_dir(parent: BorrowedFd<'_>, name: &CStr) -> bool {
    fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Whether a name in a listing is the directory itself or the one above it.
pub(super) fn is_dot(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

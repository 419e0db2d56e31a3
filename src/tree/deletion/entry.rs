//! An entry that will be deleted: its type, and how to open it.

use crate::fs::openat;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Opens a directory so that its entries can be removed.
pub(super) fn open_for_deletion(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    if !rustix::process::geteuid().is_root() {
        allow_all(parent, name)?;
    }
    openat::open_subdir(parent, name)
}

/// Gives the owner all rights to a directory. Never changes the target of a link.
pub(crate) fn allow_all(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = fs::openat(parent, name, flags, Mode::empty())?;
    // fchmod(2) does not accept this kind of descriptor. The descriptor's name under /proc does not follow a link
    // either.
    fs::chmod(format!("/proc/self/fd/{}", dir.as_raw_fd()), Mode::RWXU)
}

/// Whether an entry is a directory.
pub(super) fn is_dir(parent: BorrowedFd<'_>, name: &CStr) -> bool {
    fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Whether a name in a listing is `.` or `..`.
pub(super) fn is_dot(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

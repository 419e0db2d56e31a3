//! Detects a filesystem that failed as a whole: it was shut down after an error, or its device is gone. Then every call
//! fails with `EIO`, as it also does for a single damaged file.

use crate::fs::filesystem;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::{Errno, Result};
use std::os::fd::AsFd;

/// A name that no directory has. Looking it up reads the directory.
const ABSENT: &str = ".pleach-absent";

/// Whether an error may come from a failed filesystem.
pub(crate) fn is_suspected(errno: Errno) -> bool {
    matches!(errno, Errno::IO | Errno::NXIO | Errno::SHUTDOWN | Errno::UCLEAN)
}

/// Whether the filesystem of an open directory cannot be read. Nothing is written.
pub(crate) fn is_unreadable(dir: impl AsFd) -> bool {
    // After a shutdown ext4 still answers from memory, but a sync fails. The error of a failed write is reported once
    // for each open file description, so this one must not be shared.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let synced = rustix::fs::openat(&dir, c".", flags, Mode::empty()).and_then(rustix::fs::syncfs);
    let found = rustix::fs::statx(&dir, ABSENT, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE);
    [synced.err(), found.err()].into_iter().flatten().any(has_failed)
}

/// Writes the changes of an open directory to the disk. Some filesystems cannot sync a directory: then all of the
/// filesystem is synced.
///
/// # Errors
/// Errors of fsync(2). If a shutdown lost the last changes of a directory, XFS reports no error here, but then the
/// directory's status cannot be read.
pub(crate) fn sync_directory(dir: impl AsFd) -> Result<()> {
    match rustix::fs::fsync(&dir) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => rustix::fs::syncfs(&dir)?,
        synced => synced?,
    }
    rustix::fs::fstat(dir).map(drop)
}

/// Whether nothing can be created on the filesystem of an open directory.
pub(crate) fn is_unwritable(dir: impl AsFd) -> bool {
    filesystem::unnamed(&dir).is_err_and(has_failed) || is_unreadable(dir)
}

/// `UCLEAN` means that only the directory is damaged.
fn has_failed(errno: Errno) -> bool {
    matches!(errno, Errno::IO | Errno::NXIO | Errno::SHUTDOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_working_filesystem_has_not_failed() {
        let dir = std::fs::File::open(env!("CARGO_MANIFEST_DIR")).unwrap();
        assert!(!is_unreadable(&dir) && !is_unwritable(&dir));
        let read_only = std::fs::File::open("/proc/self").unwrap();
        assert!(!is_unwritable(&read_only), "it takes no files, but works");
    }
}

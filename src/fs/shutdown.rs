//! Whether a filesystem has failed as a whole: it was shut down after an error, or its device is gone. Then every call on it
//! fails with `EIO`, which a damaged file alone gives too.

use crate::fs::filesystem;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::{Errno, Result};
use std::os::fd::AsFd;

/// A name that no directory has: to look it up, the directory itself must be read.
const ABSENT: &str = ".pleach-absent";

/// Whether an error may be that of a failed filesystem.
pub(crate) fn is_suspected(errno: Errno) -> bool {
    matches!(errno, Errno::IO | Errno::NXIO | Errno::SHUTDOWN | Errno::UCLEAN)
}

/// Whether nothing can be read from the filesystem of an open directory. Nothing is written.
pub(crate) fn is_unreadable(dir: impl AsFd) -> bool {
    // An ext4 that was shut down still answers from memory, but not a sync. The error of a failed write is reported once for
    // each open file description, so this one must be nobody else's.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let synced = rustix::fs::openat(&dir, c".", flags, Mode::empty()).and_then(rustix::fs::syncfs);
    let found = rustix::fs::statx(&dir, ABSENT, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE);
    [synced.err(), found.err()].into_iter().flatten().any(has_failed)
}

/// Writes an open directory to the disk.
///
/// # Errors
/// Those of fsync(2). XFS reports none for a directory whose last changes were lost because the filesystem was shut down; but
/// then it no longer gives the directory's status.
pub(crate) fn sync_directory(dir: impl AsFd) -> Result<()> {
    rustix::fs::fsync(&dir)?;
    rustix::fs::fstat(dir).map(drop)
}

/// Whether nothing can be made on the filesystem of an open directory.
pub(crate) fn is_unwritable(dir: impl AsFd) -> bool {
    filesystem::unnamed_yet(&dir).is_err_and(has_failed) || is_unreadable(dir)
}

/// A damaged directory is `UCLEAN` by itself.
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

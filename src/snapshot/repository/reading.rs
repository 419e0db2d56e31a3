//! Keeps a snapshot that is being read from being removed: flock(2) on its manifest, shared by readers, exclusive for
//! removal. The lock ends with its process, in whatever way.

use super::dir::Dir;
use crate::error::{Error, Result};
use rustix::fs::{self, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;

/// A snapshot that no other process reads, until this is dropped.
pub(super) struct Claim {
    pub(super) name: String,
    /// `None` if the manifest cannot be opened: then nobody else can read it either.
    file: Option<File>,
}

impl Claim {
    /// Keeps readers away from a snapshot; `None` if another process reads it.
    pub(super) fn take(manifests: &Dir, name: &str) -> Result<Option<Claim>> {
        let name = name.to_string();
        let Ok(file) = manifests.file(&name, OFlags::RDONLY, Mode::empty()) else {
            return Ok(Some(Claim { name, file: None }));
        };
        match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(None),
            Ok(()) => Ok(Some(Claim { name, file: Some(file) })),
            Err(errno) if has_no_locks(errno) => Ok(Some(Claim { name, file: None })),
            Err(errno) => Err(Error::io("lock", manifests.join(&name), errno)),
        }
    }
}

impl Drop for Claim {
    /// Closing the file is not enough: see the repository's lock.
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = fs::flock(file, FlockOperation::Unlock);
        }
    }
}

/// Marks a manifest as being read, until the file is closed. Waits while its snapshot is being removed.
///
/// # Errors
/// If the snapshot was removed meanwhile.
pub(super) fn note_reader(file: &File, manifests: &Dir, name: &str) -> Result<()> {
    let failed = |errno| Error::io("open", manifests.join(name), errno);
    match fs::flock(file, FlockOperation::LockShared) {
        Ok(()) => {}
        Err(errno) if has_no_locks(errno) => {}
        Err(errno) => return Err(failed(errno)),
    }
    if fs::fstat(file).map_err(failed)?.st_nlink == 0 {
        return Err(failed(Errno::NOENT).hint("the snapshot was just removed"));
    }
    Ok(())
}

/// Whether an error of flock(2) means that the filesystem has no locks. NFS has none for a file that is open for
/// reading only (`BADF`).
fn has_no_locks(errno: Errno) -> bool {
    matches!(errno, Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK | Errno::INVAL | Errno::BADF)
}

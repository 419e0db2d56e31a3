//! The file to find owners for, and the errors about it.

use crate::error::{Error, Result};
use rustix::io::Errno;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

/// A file to find owners for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// Its path, for messages.
    pub path: &'a Path,
    /// The file, open for reading.
    pub fd: BorrowedFd<'a>,
}

/// The error for a file if its owners cannot be found.
pub(super) fn unknown(path: &Path, errno: Errno) -> Error {
    let error = Error::io("find the owners of", path, errno);
    match errno {
        Errno::PERM | Errno::ACCESS => error.hint("run as root: the kernel informs only root"),
        _ => error,
    }
}

/// A descriptor that keeps the filesystem of this file open.
pub(super) fn anchor(file: Subject<'_>) -> Result<OwnedFd> {
    file.fd.as_fd().try_clone_to_owned().map_err(|error| Error::io("keep open", file.path, error))
}

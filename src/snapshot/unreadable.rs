//! Errors of reading stored data. Data that the device has lost is damage, like data that differs. If the filesystem
//! has failed as a whole, nothing can be read, and nothing is known about any snapshot.

use super::repository::Repository;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::data_loss::is_data_loss;
use crate::fs::shutdown;
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// The error of an action on stored data.
pub(super) fn stored(action: &str, path: impl AsRef<Path>, cause: impl Into<io::Error>) -> Error {
    let cause = cause.into();
    let kind = if has_lost_data(cause.raw_os_error()) { ErrorKind::Damage } else { ErrorKind::Failed };
    Error::new(kind, action).at(path).because(cause)
}

/// Whether an error shows that the device lost data.
pub(super) fn is_lost(error: &Error) -> bool {
    has_lost_data(error.raw_os_error())
}

fn has_lost_data(errno: Option<i32>) -> bool {
    errno.is_some_and(|errno| is_data_loss(Errno::from_raw_os_error(errno)))
}

/// Fails if the filesystem of the repository has failed as a whole: then all looks damaged.
pub(super) fn check_filesystem(repository: &Repository) -> Result<()> {
    if !shutdown::is_unreadable(repository.fd()) {
        return Ok(());
    }
    let hint = "its filesystem has failed, so nothing is known about the snapshots: check the disk (dmesg(1)), mount \
                the filesystem again, and run again";
    Err(Error::io("read the repository", repository.path(), Errno::IO).hint(hint))
}

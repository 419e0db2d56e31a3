//! Errors of places.

use crate::util::text;
use rustic_core::{ErrorKind, RusticError};
use std::error::Error;
use std::io;

/// The error of an action, for the library. `action` completes the sentence "cannot …".
pub(super) fn failed(action: &str, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Box<RusticError> {
    RusticError::with_source(ErrorKind::Backend, format!("cannot {action}"), cause)
}

/// The error of a host that does not answer.
pub(super) fn silent() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}

/// The error of a file or an answer that is longer than it may be.
pub(super) fn too_long(most: u64) -> io::Error {
    io::Error::other(format!("it has more than {}", text::size(most)))
}

//! IDs of snapshots on the command line.

use crate::error::{Error, Result};
use std::ffi::OsStr;

/// The ID in a word.
///
/// # Errors
/// If it is not UTF-8.
pub(super) fn as_id<T: AsRef<OsStr> + ?Sized>(word: &T) -> Result<&str> {
    let word = word.as_ref();
    word.to_str().ok_or_else(|| Error::usage("look for a snapshot called").at(word).hint("names are UTF-8"))
}

//! Paths of entries, for messages.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// The path with its leading slash, for messages.
pub(crate) fn absolute(path: &[u8]) -> PathBuf {
    let mut absolute = PathBuf::from("/");
    absolute.push(OsStr::from_bytes(path));
    absolute
}

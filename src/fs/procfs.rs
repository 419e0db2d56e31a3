//! The proc filesystem: several kinds of metadata are reached only by the names that it gives to open files.

use crate::error::{Error, Result};
use std::path::Path;

/// Where this process's open files have names.
const OPEN_FILES: &str = "/proc/self/fd";

/// Makes sure that the proc filesystem is mounted. Without it the metadata of links and special files, and extended attributes
/// by name, are out of reach, and calls fail as if the files did not exist.
///
/// # Errors
/// If it is not.
pub(crate) fn require() -> Result<()> {
    if Path::new(OPEN_FILES).exists() {
        return Ok(());
    }
    let error = Error::failed("reach the metadata of files: /proc is not mounted");
    Err(error.hint("mount it: mount -t proc proc /proc").with_code("no-proc"))
}

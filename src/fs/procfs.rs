//! The proc filesystem. Some metadata is only accessible by its names for open files.

use crate::error::{Error, Result};
use std::path::Path;

/// The directory with the names of this process's open files.
const OPEN_FILES: &str = "/proc/self/fd";

/// Checks that the proc filesystem is mounted. Without it the metadata of links and special files, and extended
/// attributes by name, are not accessible, and calls fail as if the files did not exist.
///
/// # Errors
/// If it is not mounted.
pub(crate) fn require() -> Result<()> {
    if Path::new(OPEN_FILES).exists() {
        return Ok(());
    }
    let error = Error::failed("reach the metadata of files: /proc is not mounted");
    Err(error.hint("mount it: mount -t proc proc /proc").with_code("no-proc"))
}

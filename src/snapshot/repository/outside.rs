//! Places outside a repository.

use super::Repository;
use crate::error::{Error, Result};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Refuses a path in the repository itself, for an action that stores copies of it there: a copy would have to hold
/// itself.
///
/// # Errors
/// Of kind `Usage`.
pub(crate) fn check_outside(repository: &Repository, action: &str, path: &Path) -> Result<()> {
    let refuse = |hint: &str| Err(Error::usage(action).at(path).hint(hint));
    let Ok(repository) = rustix::fs::fstat(repository.fd()) else { return Ok(()) };
    let Ok(absolute) = std::path::absolute(path) else { return Ok(()) };
    // What does not exist yet is below the first directory that does.
    let existing = absolute.ancestors().find_map(|dir| std::fs::canonicalize(dir).ok().map(|real| (dir, real)));
    let Some((named, real)) = existing else { return Ok(()) };
    for (depth, dir) in real.ancestors().enumerate() {
        let is_it = std::fs::metadata(dir)
            .is_ok_and(|status| (status.dev(), status.ino()) == (repository.st_dev, repository.st_ino));
        match is_it {
            true if depth == 0 && named == absolute => return refuse("it is the repository itself"),
            true => return refuse("it is in the repository itself: name a directory outside"),
            false => {}
        }
    }
    Ok(())
}

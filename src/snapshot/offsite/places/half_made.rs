//! The directory of a store in the making.

use super::local::TEMPORARY;
use crate::error::{Error, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use walkdir::WalkDir;

/// The directory of a store in the making. While it exists, no other run makes one there.
pub(in super::super) struct Place<'p> {
    path: &'p Path,
    /// Locked.
    _dir: File,
}

/// The file that completes a store.
const CONFIG: &str = "config";
/// The directories of a store.
const DIRS: [&str; 5] = ["data", "index", "keys", "locks", "snapshots"];

impl Place<'_> {
    /// Makes the directory, for its owner alone. An existing one must be empty, or be what a killed run left. That is
    /// removed.
    pub(in super::super) fn take(path: &Path) -> Result<Place<'_>> {
        let failed = |cause| Error::io("make a store at", path, cause);
        if let Some(above) = path.parent() {
            fs::create_dir_all(above).map_err(failed)?;
        }
        match DirBuilder::new().mode(0o700).create(path) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(failed)?,
        }
        let dir = File::open(path).map_err(failed)?;
        let locked = flock(&dir, FlockOperation::NonBlockingLockExclusive);
        if locked == Err(Errno::WOULDBLOCK) {
            return Err(failed(io::Error::other("another run makes one there")).with_code("exists"));
        }
        let place = Place { path, _dir: dir };
        // Some network filesystems have no locks. There, another run may be making a store at this moment.
        if locked.is_ok() && is_half_made(path) {
            place.clear();
        }
        if fs::read_dir(path).map_err(failed)?.next().is_some() {
            let cause = io::Error::other("the directory is not empty");
            return Err(failed(cause).hint("choose a new directory").with_code("exists"));
        }
        Ok(place)
    }

    /// Removes what an attempt made that failed or was killed.
    pub(in super::super) fn clear(&self) {
        let unfinished = format!("{CONFIG}{TEMPORARY}");
        for path in DIRS.into_iter().chain([CONFIG, &unfinished]).map(|name| self.path.join(name)) {
            let is_dir = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
            let _ = if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}

/// Whether a directory has only what a killed run leaves: some or all of the empty directories of a store, and if there
/// are all of them, perhaps a key and the beginning of `config`. A store that lost its `config` has more.
fn is_half_made(path: &Path) -> bool {
    let mut has_files = false;
    for entry in WalkDir::new(path).min_depth(1) {
        let Ok(entry) = entry else { return false };
        let Some(below) = entry.path().strip_prefix(path).ok().and_then(Path::to_str) else { return false };
        let names: Vec<_> = below.split('/').collect();
        let is_ours = match names[..] {
            [dir] if entry.file_type().is_dir() => DIRS.contains(&dir),
            ["data", dir] if entry.file_type().is_dir() => is_hash(dir),
            ["keys", file] if entry.file_type().is_file() => is_hash(file.strip_suffix(TEMPORARY).unwrap_or(file)),
            [file] => entry.file_type().is_file() && file.strip_suffix(TEMPORARY) == Some(CONFIG),
            _ => false,
        };
        if !is_ours {
            return false;
        }
        has_files |= entry.file_type().is_file();
    }
    !has_files || ["data", "index", "keys", "snapshots"].iter().all(|name| path.join(name).is_dir())
}

/// Whether a name is a hash, or the beginning of one.
fn is_hash(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(files: &[&str]) -> bool {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if file.ends_with('/') { fs::create_dir_all(path).unwrap() } else { fs::write(path, b"").unwrap() }
        }
        is_half_made(dir.path())
    }

    #[test]
    fn only_the_rest_of_a_killed_run_is_half_made() {
        assert!(made(&["data/00/", "data/ff/", "index/"]));
        assert!(made(&["data/00/", "index/", "snapshots/", "keys/0a1b"]));
        assert!(!made(&["data/00/", "index/", "snapshots/", "keys/id_rsa"]));
        assert!(made(&["data/00/", "index/", "snapshots/", "keys/0a1b-tmp-"]));
        assert!(made(&["data/00/", "index/", "snapshots/", "keys/0a1b", "config-tmp-"]));
        assert!(!made(&["keys/0a1b"]));
        assert!(!made(&["data/00/0a1b", "index/", "snapshots/", "keys/0a1b"]));
        assert!(!made(&["data/00/", "index/0a1b", "snapshots/", "keys/0a1b"]));
        assert!(!made(&["data/00/", "config"]));
        assert!(!made(&["data/photos/"]));
        assert!(!made(&["music/"]));
    }
}

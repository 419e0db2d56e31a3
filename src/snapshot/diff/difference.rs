//! A difference as it is reported, and its files for those who want to read them.

use crate::content::hash;
use crate::error::{Error, Result};
use crate::fs::openat;
use crate::monitor::{Change, Monitor};
use crate::snapshot::manifest::{Body, Item};
use crate::util::path::is_below;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// How one entry differs.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Difference<'a> {
    /// The kind of the difference.
    pub change: Change,
    /// The path of the entry, in the new snapshot if it is there.
    pub path: &'a Path,
    /// Its path in the old snapshot, if that is another.
    pub from: Option<&'a Path>,
    /// The entry in the old snapshot.
    pub old: Option<Facts>,
    /// The entry in the new snapshot.
    pub new: Option<Facts>,
    /// The top directory or entry that it belongs to: one of those in the directory that is compared.
    pub top: &'a Path,
    pub(super) trees: &'a Trees,
}

/// Facts about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// Apparent size if it is a regular file, otherwise 0.
    pub size: u64,
    /// Whether it is a regular file.
    pub is_file: bool,
}

impl Facts {
    pub(super) fn of(item: &Item) -> Facts {
        match item {
            Item::Entry(entry) => match &entry.body {
                Body::File(file) => Facts { size: file.size, is_file: true },
                _ => Facts { size: 0, is_file: false },
            },
            Item::Directory(_) => Facts { size: 0, is_file: false },
        }
    }
}

impl Difference<'_> {
    /// The names of the old and the new snapshot; the second may be [`LIVE`](super::LIVE).
    pub fn snapshots(&self) -> (&str, &str) {
        (&self.trees.names.0, &self.trees.names.1)
    }

    /// Opens the old file. `None`: it was not a regular file.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_old(&self) -> Result<Option<File>> {
        match self.old {
            Some(Facts { is_file: true, .. }) => open(&self.trees.old, self.from.unwrap_or(self.path)).map(Some),
            _ => Ok(None),
        }
    }

    /// Opens the new file. `None`: it is not a regular file.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_new(&self) -> Result<Option<File>> {
        match self.new {
            Some(Facts { is_file: true, .. }) => open(&self.trees.new, self.path).map(Some),
            _ => Ok(None),
        }
    }
}

/// The trees of both sides; the new one may be the root of the live tree.
#[derive(Debug)]
pub(super) struct Trees {
    pub(super) old: OwnedFd,
    pub(super) new: OwnedFd,
    /// The names of the snapshots.
    pub(super) names: (String, String),
    pub(super) is_live: bool,
}

/// The hash of a file of a tree, and the bytes that were read.
pub(super) fn hash(tree: &OwnedFd, path: &Path, size: u64, monitor: &dyn Monitor) -> Result<([u8; 32], u64)> {
    let failed = |errno| match errno {
        Errno::CANCELED => Error::interrupted(),
        errno => Error::io("compare", path, errno),
    };
    hash::any_file(open(tree, path)?, size, monitor).map_err(failed)
}

fn open(tree: &OwnedFd, path: &Path) -> Result<File> {
    let failed = |errno| Error::io("read the version to compare of", path, errno);
    let below = path.as_os_str().as_bytes();
    let below = below.strip_prefix(b"/").unwrap_or(below);
    // A pipe or device in its place must not be opened.
    let node = openat::open(tree.as_fd(), below, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC).map_err(failed)?;
    let stat = rustix::fs::fstat(&node).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Error::failed("read the version to compare of").at(path).hint("it is no longer a regular file"));
    }
    Ok(openat::open_file_at(tree.as_fd(), below).map_err(failed)?.into())
}

/// The root of the live tree.
pub(super) fn root() -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open("/", flags, Mode::empty()).map_err(|errno| Error::io("open", "/", errno))
}

/// The directory that is compared. Its entries are the tops.
#[derive(Clone, Debug, Default)]
pub(super) struct Top(Vec<u8>);

impl Top {
    /// The deepest directory that contains these absolute paths.
    pub(super) fn above<'p>(mut paths: impl Iterator<Item = &'p Path>) -> Top {
        let Some(first) = paths.next() else { return Top::default() };
        let mut top = first.to_path_buf();
        for path in paths {
            while !path.starts_with(&top) && top.pop() {}
        }
        Top(top.as_os_str().as_bytes().strip_prefix(b"/").unwrap_or_default().to_vec())
    }

    /// This path.
    pub(super) fn at(path: &[u8]) -> Top {
        Top(path.to_vec())
    }

    /// The top that a path belongs to.
    pub(super) fn of<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        if path.len() <= self.0.len() || !is_below(path, &self.0) {
            return path;
        }
        let begin = if self.0.is_empty() { 0 } else { self.0.len() + 1 };
        let end = path[begin..].iter().position(|byte| *byte == b'/').map_or(path.len(), |slash| begin + slash);
        &path[..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tops_are_the_entries_of_the_compared_directory() {
        let top = |paths: &[&str]| Top::above(paths.iter().map(Path::new));
        assert_eq!(top(&["/home", "/home"]).of(b"home/ann/notes"), b"home/ann");
        assert_eq!(top(&["/home/ann", "/home/bob"]).of(b"home/ann/notes"), b"home/ann");
        assert_eq!(top(&["/home", "/etc"]).of(b"etc/hosts"), b"etc");
        assert_eq!(top(&["/home"]).of(b"home"), b"home");
        assert_eq!(top(&["/home"]).of(b""), b"");
        assert_eq!(Top::at(b"a").of(b"ab/c"), b"ab/c");
    }
}

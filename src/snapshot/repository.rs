//! The repository on the disk: its directories, its lock, the snapshots in it. What is in a snapshot is not looked at here.
//!
//! Everything goes by descriptors relative to the repository's own, and no symbolic link in it is followed.

mod added;
mod blocks;
mod dir;
mod durable;
mod init;
mod leftovers;
mod lock;
mod name;
mod snapshots;
mod staging;
mod subvolume;

pub use added::{Added, Space};
pub use blocks::{Blocks, Draft};
pub(crate) use dir::Dir;
pub use leftovers::Leftover;
pub use lock::Lock;
pub use name::check_name;
pub use snapshots::{Listing, SnapshotInfo};
pub use staging::Staging;
pub use subvolume::Start;

use super::manifest::Reader;
use crate::error::{Advice, Error, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// The version of the repository's layout that this program makes, and the only one it works with.
pub const FORMAT: u32 = 1;
/// The directory for everything that is no snapshot.
pub const CONTROL: &str = ".pleach";
/// The link to the newest snapshot.
pub const LATEST: &str = "latest";

/// An open repository.
#[derive(Debug)]
pub struct Repository {
    root: Dir,
    control: Dir,
    manifests: Dir,
}

impl Repository {
    /// Opens a repository.
    ///
    /// # Errors
    /// If there is none at `path`, or one of another format.
    pub fn open(path: &Path) -> Result<Repository> {
        let root = Dir::open(path).map_err(|errno| match errno {
            Errno::NOENT => missing(path),
            errno => unusable(path, errno),
        })?;
        match init::look(&root)? {
            init::Found::Repository => Self::open_at(root),
            init::Found::HalfMade | init::Found::Empty => Err(missing(path)),
            init::Found::Foreign => Err(Error::failed("find a pleach repository in").at(path)),
        }
    }

    /// Opens a repository, or makes one of a missing or empty directory. One whose making was interrupted is completed.
    ///
    /// # Errors
    /// If `path` is anything else than these, or its parent directory is missing.
    pub fn open_or_create(path: &Path) -> Result<Repository> {
        let root = match Dir::open(path) {
            Ok(root) => root,
            Err(Errno::NOENT) => init::make_root(path)?,
            Err(errno) => return Err(unusable(path, errno)),
        };
        match init::look(&root)? {
            init::Found::Repository => {}
            init::Found::HalfMade | init::Found::Empty => init::make(&root)?,
            init::Found::Foreign => {
                return Err(Error::failed("make a repository of")
                    .at(path)
                    .because(Errno::NOTEMPTY)
                    .hint("name a missing or an empty directory, or a repository"));
            }
        }
        Self::open_at(root)
    }

    fn open_at(root: Dir) -> Result<Repository> {
        let control = root.dir(CONTROL)?;
        init::check_format(&control)?;
        let manifests = control.dir("manifests")?;
        Ok(Repository { root, control, manifests })
    }

    /// The path it was opened with.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// The repository's own directory.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Takes the lock that keeps other runs from changing the repository. It goes with the process, however that ends.
    ///
    /// # Errors
    /// Kind `Locked` if another run has it.
    pub fn lock(&self) -> Result<Lock> {
        Lock::take(&self.control)
    }

    /// A snapshot's manifest.
    pub fn manifest(&self, name: &str) -> Result<Reader> {
        check_name(name)?;
        let path = self.manifests.path().join(name);
        Reader::from_file(self.manifests.file(name, OFlags::RDONLY, Mode::empty())?, &path)
    }

    /// A snapshot's tree.
    pub fn tree(&self, name: &str) -> Result<OwnedFd> {
        check_name(name)?;
        Ok(self.root.dir(name)?.into())
    }

    fn partial(&self) -> Result<Dir> {
        self.control.dir("partial")
    }

    fn trash(&self) -> Result<Dir> {
        self.control.dir("trash")
    }
}

fn missing(path: &Path) -> Error {
    Error::failed("find a repository at").at(path).advise(Advice::TakeSnapshot)
}

fn unusable(path: &Path, errno: Errno) -> Error {
    let error = Error::io("open the repository", path, errno);
    if errno == Errno::NOTDIR { error.hint("a repository is a directory") } else { error }
}

#[cfg(test)]
mod tests;

//! An open repository: how it is opened or made, and its directories, lock, manifests and trees.
//!
//! `snapshots` looks snapshots up. All other work on a repository is in functions of their own: making and publishing
//! snapshots, subvolumes, leftovers, the trash.

use super::dir::Dir;
use super::init::{self, unusable};
use super::layout::CONTROL;
use super::lock::Lock;
use super::name::check_name;
use super::reading::note_reader;
use crate::error::{Advice, Error, Result};
use crate::monitor::{Event, Monitor};
use crate::snapshot::manifest::Reader;
use crate::util::text;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// An open repository: a directory with snapshots.
#[derive(Debug)]
pub struct Repository {
    pub(super) root: Dir,
    pub(super) control: Dir,
    pub(super) manifests: Dir,
}

impl Repository {
    /// Opens a repository.
    ///
    /// # Errors
    /// If there is none at `path`, or it has another format.
    pub fn open(path: &Path) -> Result<Repository> {
        let root = Dir::open(path).map_err(|errno| match errno {
            Errno::NOENT => missing(path),
            errno => unusable(path, errno),
        })?;
        match init::look(&root)? {
            init::Found::Repository => Self::open_at(root),
            init::Found::HalfMade | init::Found::Empty => Err(missing(path)),
            init::Found::Foreign => Err(match enclosing(path) {
                Some(hint) => Error::failed("find a pleach repository in").at(path).hint(hint),
                None => Error::failed("find a pleach repository in").at(path),
            }),
        }
    }

    /// Opens a repository. `None`: [`open_or_create`](Self::open_or_create) would make one there.
    ///
    /// # Errors
    /// If `path` is anything else.
    pub(crate) fn open_if_made(path: &Path) -> Result<Option<Repository>> {
        let root = match Dir::open(path) {
            Ok(root) => root,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(unusable(path, errno)),
        };
        match init::look(&root)? {
            init::Found::Repository => Self::open_at(root).map(Some),
            init::Found::HalfMade | init::Found::Empty => Ok(None),
            init::Found::Foreign => Err(foreign(path)),
        }
    }

    /// [`open_or_create`](Self::open_or_create), with an event if it makes a repository.
    ///
    /// # Errors
    /// As `open_or_create`.
    pub(crate) fn open_or_make(path: &Path, monitor: &dyn Monitor) -> Result<Repository> {
        let (repository, is_new) = Self::open_or_new(path)?;
        if is_new {
            monitor.event(Event::RepositoryMade(path));
        }
        Ok(repository)
    }

    /// Opens a repository, or makes one in a missing or empty directory. It completes a repository that an interrupted
    /// run left incomplete.
    ///
    /// # Errors
    /// If `path` is anything else, or its parent directory is missing.
    pub fn open_or_create(path: &Path) -> Result<Repository> {
        Self::open_or_new(path).map(|(repository, _)| repository)
    }

    /// The repository, and whether this call has made it.
    fn open_or_new(path: &Path) -> Result<(Repository, bool)> {
        let root = match Dir::open(path) {
            Ok(root) => root,
            Err(Errno::NOENT) => init::make_root(path)?,
            Err(errno) => return Err(unusable(path, errno)),
        };
        let is_new = match init::look(&root)? {
            init::Found::Repository => false,
            init::Found::HalfMade | init::Found::Empty => init::make(&root)?,
            init::Found::Foreign => return Err(foreign(path)),
        };
        Ok((Self::open_at(root)?, is_new))
    }

    fn open_at(root: Dir) -> Result<Repository> {
        let control = root.dir(CONTROL)?;
        init::check_format(&control)?;
        let manifests = control.dir("manifests")?;
        Ok(Repository { root, control, manifests })
    }

    /// The path that it was opened with.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// The repository's own directory.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Writes everything on the repository's filesystem to the disk.
    pub fn sync(&self) -> Result<()> {
        rustix::fs::syncfs(&self.root).map_err(|errno| Error::io("sync the filesystem of", self.path(), errno))
    }

    /// Takes the lock that keeps other runs from changing the repository. The lock ends with the process, in whatever
    /// way. Reports an event if the filesystem has no locks.
    ///
    /// # Errors
    /// Kind `Locked` if another run holds it.
    pub(crate) fn lock(&self, monitor: &dyn Monitor) -> Result<Lock> {
        let lock = Lock::take(&self.control)?;
        if !lock.is_held {
            monitor.event(Event::NoLocks);
        }
        Ok(lock)
    }

    /// A snapshot's manifest. Until it is dropped, the snapshot is not removed.
    pub(crate) fn manifest(&self, name: &str) -> Result<Reader> {
        check_name(name)?;
        let path = self.manifests.path().join(name);
        let file = self.manifests.file(name, OFlags::RDONLY, Mode::empty())?;
        note_reader(&file, &self.manifests, name)?;
        Reader::from_file(file, &path)
    }

    /// Opens the directory that contains the tree of the snapshot `name`: the files as they were, below their absolute
    /// paths. Do not write there.
    ///
    /// # Errors
    /// If there is no such snapshot.
    pub fn tree(&self, name: &str) -> Result<OwnedFd> {
        check_name(name)?;
        Ok(self.root.dir(name)?.into())
    }

    /// The directory of snapshots in the making. Nothing in it must last, so a missing one is made again.
    pub(super) fn partial(&self) -> Result<Dir> {
        self.control.make_dir("partial")
    }

    /// The directory of trees that are being deleted. A missing one is made again.
    pub(super) fn trash(&self) -> Result<Dir> {
        self.control.make_dir("trash")
    }
}

fn missing(path: &Path) -> Error {
    Error::failed("find a repository at").at(path).advise(Advice::FindRepository).with_code("no-repository")
}

fn foreign(path: &Path) -> Error {
    Error::failed("make a repository of").at(path).because(Errno::NOTEMPTY).advise(Advice::EmptyDirectory)
}

/// The repository that contains a path, in words.
fn enclosing(path: &Path) -> Option<String> {
    let path = fs::canonicalize(path).ok()?;
    let is_repository = |dir: &Path| {
        let found = Dir::open(dir).ok().and_then(|dir| init::look(&dir).ok());
        matches!(found, Some(init::Found::Repository))
    };
    let above = path.ancestors().skip(1).find(|above| is_repository(above))?;
    let what = if path.parent() == Some(above) { "it is a snapshot" } else { "it is inside a snapshot" };
    Some(format!("{what}; the repository is {}", text::path(above)))
}

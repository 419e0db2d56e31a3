//! Where a repair takes sound content from: another snapshot, or a directory that has the sources below it.

use super::options::RepairFrom;
use crate::error::{Error, Result};
use crate::fs::openat;
use crate::fs::status::Status;
use crate::snapshot::repository::Repository;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// An open [`RepairFrom`].
#[derive(Debug)]
pub(super) struct Origin {
    tree: OwnedFd,
    name: PathBuf,
}

impl Origin {
    /// Opens the snapshot or the directory.
    pub(super) fn open(repository: &Repository, from: &RepairFrom) -> Result<Origin> {
        match from {
            RepairFrom::Snapshot(id) => {
                let name = repository.resolve(id)?.name;
                Ok(Origin { tree: repository.tree(&name)?, name: name.into() })
            }
            RepairFrom::Directory(path) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let tree = rustix::fs::open(path, flags, Mode::empty());
                let tree = tree.map_err(|errno| Error::io("open the source of the repair", path, errno))?;
                Ok(Origin { tree, name: path.clone() })
            }
        }
    }

    /// Its name, for reports.
    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// Opens a file of this size. No link is followed.
    ///
    /// # Errors
    /// `NOENT` if there is none of this size.
    pub(super) fn file(&self, path: &[u8], size: u64) -> rustix::io::Result<OwnedFd> {
        let file = openat::open_regular_at(self.tree.as_fd(), path)?;
        let status = Status::of(&file)?;
        let is_candidate = status.file_type() == FileType::RegularFile && status.size == size;
        if is_candidate { Ok(file) } else { Err(Errno::NOENT) }
    }
}

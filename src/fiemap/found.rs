//! The files of the paths on a command line: the path itself, or all files below a directory.
//!
//! A directory is listed by its path, but nothing below it is opened by its path. Each file is opened from the
//! descriptor of the named directory, without following links. A tree that changes meanwhile therefore cannot lead
//! elsewhere.

use super::file::{self, File};
use crate::error::{Error, Result};
use crate::fs::openat;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use walkdir::WalkDir;

/// A regular file that the user named, or that was found below a named directory.
#[derive(Clone, Debug)]
pub struct Found {
    path: PathBuf,
    below: Option<Below>,
}

#[derive(Clone, Debug)]
struct Below {
    top: Arc<OwnedFd>,
    /// From the top directory.
    way: PathBuf,
}

impl Found {
    /// Opens it for mapping.
    ///
    /// # Errors
    /// As [`super::open`]; below a directory also if the path contains a link by now.
    pub fn open(&self) -> Result<File> {
        let Some(Below { top, way }) = &self.below else { return super::open(&self.path) };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = openat::open(top.as_fd(), way.as_os_str().as_bytes(), flags);
        file::open_place(&place.map_err(|errno| Error::io("open", &self.path, errno))?, &self.path)
    }
}

/// The regular files of a path: the path itself, or all files below a directory in the order of their names. Links
/// below the directory are not followed, and other entries are skipped. Memory: the names in the directories on the
/// way.
pub fn files(path: &Path) -> Box<dyn Iterator<Item = Result<Found>>> {
    // The user named the path, so links in it are followed, as by every command.
    if !path.is_dir() {
        return Box::new(std::iter::once(Ok(Found { path: path.to_path_buf(), below: None })));
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(top) => Arc::new(top),
        Err(errno) => return Box::new(std::iter::once(Err(Error::io("open", path, errno)))),
    };
    let root = path.to_path_buf();
    let entries = WalkDir::new(path).sort_by_file_name().into_iter();
    let mut below = entries
        .filter_map(move |entry| match entry {
            Ok(entry) => entry.file_type().is_file().then(|| {
                let path = entry.into_path();
                let way = path.strip_prefix(&root).unwrap_or(&path).to_path_buf();
                Ok(Found { path, below: Some(Below { top: Arc::clone(&top), way }) })
            }),
            Err(error) => {
                let path = error.path().map(Path::to_path_buf).unwrap_or_default();
                // walkdir's own message names the path again.
                let cause = error.into_io_error().unwrap_or_else(|| Errno::LOOP.into());
                Some(Err(Error::io("list", path, cause)))
            }
        })
        .peekable();
    if below.peek().is_none() {
        return Box::new(std::iter::once(Err(Error::failed("find a regular file below").at(path))));
    }
    Box::new(below)
}

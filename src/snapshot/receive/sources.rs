//! Opens the files that the stream takes content from. It may name any path of the base and of the new tree, and both
//! may have anything there: so a path is opened name by name without following links, and nothing but a regular file
//! is opened at all. To open a device can have effects.

use super::tree::Tree;
use crate::error::{Error, Result};
use crate::fs::openat;
use crate::fs::reopener::Reopener;
use crate::fs::status::Status;
use crate::snapshot::stream::{Place, Side, damage};
use crate::tree::walk::absolute;
use crate::util::path::split;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// The trees that have the content of entries.
pub(super) struct Sources {
    base: Option<Reopener>,
    /// The place that was opened last.
    last: Option<(Side, Vec<u8>, OwnedFd)>,
}

impl Sources {
    pub(super) fn new(base: Option<BorrowedFd<'_>>) -> Result<Sources> {
        let base = base.map(Reopener::new).transpose();
        let base = base.map_err(|errno| Error::failed("open the snapshot that this one is based on").because(errno))?;
        Ok(Sources { base, last: None })
    }

    /// Opens the file at a place.
    pub(super) fn open(&mut self, tree: &Tree, place: &Place) -> Result<OwnedFd> {
        let failed = |cause: std::io::Error| Error::failed("open the file with the content").because(cause);
        let is_last = |side: Side, path: &[u8]| place.path.is_empty() || (side == place.side && path == place.path);
        if let Some((side, path, fd)) = &self.last
            && is_last(*side, path)
        {
            return fd.try_clone().map_err(failed);
        }
        if place.path.is_empty() {
            return Err(damage("a place has no file"));
        }
        let (directory, name) = split(&place.path);
        let directory = match (place.side, &self.base) {
            (Side::New, _) => tree.any_directory(directory),
            (Side::Base, Some(base)) => base.open_any(directory),
            (Side::Base, None) => return Err(damage("a place is in a base, but there is none")),
        };
        let fd = match directory.and_then(|directory| open(directory.as_fd(), name)) {
            Ok(Some(fd)) => fd,
            Ok(None) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                return Err(damage("a place is not a regular file"));
            }
            Err(errno) => return Err(Error::io("open", absolute(&place.path), errno)),
        };
        let copy = fd.try_clone().map_err(failed)?;
        self.last = Some((place.side, place.path.clone(), fd));
        Ok(copy)
    }
}

/// Opens a regular file for reading; `None` if something else has this name. Nobody else changes these directories.
fn open(dir: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<Option<OwnedFd>> {
    match Status::at(dir, name)?.file_type() {
        FileType::RegularFile => openat::open_file(dir, name).map(Some),
        _ => Ok(None),
    }
}

//! Opens a file of the catalogue and makes sure that it is the file the walk saw.

use super::catalogue::{Catalogue, FileId};
use super::skip::Skip;
use crate::fs::fidedupe;
use crate::fs::openat;
use crate::fs::reopener::Reopener;
use crate::fs::status::Status;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Result;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file opened for reading that is the one the walk saw.
#[derive(Debug)]
pub(crate) struct Opened {
    fd: OwnedFd,
    status: Status,
}

impl Opened {
    /// Its status when it was opened.
    pub(crate) fn status(&self) -> &Status {
        &self.status
    }

    /// A reason for the kernel not to change the file's extents, found without calling FIDEDUPERANGE.
    pub(crate) fn obstacle(&self) -> Option<Skip> {
        fidedupe::obstacle(self.as_fd(), self.status.uid)
    }

    /// Whether nothing was written to it since it was opened.
    pub(crate) fn is_untouched(&self) -> bool {
        Status::of(&self.fd).is_ok_and(|now| now.is_untouched_since(&self.status))
    }
}

impl AsFd for Opened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens the files of a catalogue.
#[derive(Debug)]
pub(crate) struct Opener<'a> {
    catalogue: &'a Catalogue,
    /// Opens below the root directory.
    reopener: Reopener,
    opened: AtomicU64,
}

impl<'a> Opener<'a> {
    /// An opener for the files of this catalogue.
    pub(crate) fn new(catalogue: &'a Catalogue) -> Result<Self> {
        let root = rustix::fs::open(c"/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Opener { catalogue, reopener: Reopener::new(root)?, opened: AtomicU64::new(0) })
    }

    /// Opens a file, read-only, without following any link; it must still be the regular file with the inode and the
    /// size that the walk saw.
    ///
    /// # Errors
    /// The reason to skip the file.
    pub(crate) fn open(&self, file: FileId) -> std::result::Result<Opened, Skip> {
        let fd = self.descriptor(file).map_err(Skip::of_opening)?;
        self.opened.fetch_add(1, Ordering::Relaxed);
        let status = Status::of(&fd).map_err(Skip::of_opening)?;
        let record = self.catalogue.record(file);
        let same = status.file_type() == FileType::RegularFile
            && (status.dev, status.ino) == (self.catalogue.subvolume(file).dev, record.ino)
            && status.size == record.size;
        if same { Ok(Opened { fd, status }) } else { Err(Skip::Changed) }
    }

    /// How often a file was opened.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Whether the file is as the walk saw it, its timestamps included.
    pub(crate) fn is_as_seen(&self, file: FileId, opened: &Opened) -> bool {
        let record = self.catalogue.record(file);
        (opened.status.mtime, opened.status.ctime) == (record.mtime(), record.ctime())
    }

    /// Opens the directory of a file.
    pub(crate) fn directory(&self, file: FileId) -> Result<OwnedFd> {
        let path = self.catalogue.path_below_root(file);
        let name = self.catalogue.name(file).len();
        self.reopener.open_any(path[..path.len() - name].strip_suffix(b"/").unwrap_or_default())
    }

    fn descriptor(&self, file: FileId) -> Result<OwnedFd> {
        let path = self.catalogue.path_below_root(file);
        let (from, rest) = self.reopener.near(&path)?;
        openat::open_file_at(from.as_fd(), rest)
    }
}

//! The content of a file in a snapshot, for the library to read. It is opened only then.

use super::super::progress::Counts;
use super::tree::Tree;
use crate::content::hash::StreamHash;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::openat;
use crate::fs::pread::prefetch;
use crate::fs::status::{Status, Time};
use crate::fs::stored_time;
use crate::snapshot::unreadable;
use crate::tree::walk::absolute;
use rustic_core::{ReadSourceOpen, RusticError, RusticResult};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd as _;
use std::sync::Arc;

/// A file that can be opened.
pub(super) struct Content {
    pub(super) tree: Arc<Tree>,
    pub(super) path: Vec<u8>,
    pub(super) size: u64,
    pub(super) mtime: Time,
    /// The hash that its content must have.
    pub(super) hash: Option<[u8; 32]>,
}

/// An open file. The bytes that are read are counted, and hashed: the store would keep damaged content as good.
pub(super) struct Opened {
    file: File,
    content: Content,
    at: u64,
    hash: StreamHash,
}

impl Content {
    fn open_file(&self) -> Result<File> {
        let path = || absolute(&self.path);
        let failed = |errno: Errno| match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => {
                let cause = io::Error::other("the file of the manifest is not there");
                Error::new(ErrorKind::Damage, "read the snapshot's copy of").at(path()).because(cause)
            }
            errno => unreadable::stored("open the snapshot's copy of", path(), errno),
        };
        let fd = openat::open_regular_at(self.tree.root.as_fd(), &self.path).map_err(failed)?;
        let status = Status::of(&fd).map_err(failed)?;
        let is_recorded = status.file_type() == FileType::RegularFile
            && status.size == self.size
            && stored_time::is_kept(&fd, &status, self.mtime);
        if !is_recorded {
            let cause = io::Error::other("its type, size or time differs from the manifest");
            return Err(Error::new(ErrorKind::Damage, "read the snapshot's copy of").at(path()).because(cause));
        }
        // The library reads from the beginning to the end.
        prefetch(&fd, 0..self.size.min(1 << 20));
        Ok(File::from(fd))
    }
}

/// The library drops a file that cannot be read, so that is a problem of the run.
fn report(counts: &Counts, error: Error) -> Box<RusticError> {
    counts.problem(error);
    RusticError::new(rustic_core::ErrorKind::InputOutput, "the file cannot be read")
}

impl ReadSourceOpen for Content {
    type Reader = Opened;

    fn open(self) -> RusticResult<Opened> {
        if self.tree.counts.is_cancelled() {
            return Err(RusticError::new(rustic_core::ErrorKind::Other, "interrupted"));
        }
        match self.open_file() {
            Ok(file) => Ok(Opened { file, content: self, at: 0, hash: StreamHash::default() }),
            Err(error) => Err(report(&self.tree.counts, error)),
        }
    }
}

impl Opened {
    /// Takes these bytes into account.
    ///
    /// # Errors
    /// If they are the last ones, and the content does not have its hash.
    fn check(&mut self, bytes: &[u8]) -> Result<()> {
        let Content { path, size, hash, .. } = &self.content;
        self.at += bytes.len() as u64;
        let Some(expected) = hash.filter(|_| !bytes.is_empty()) else { return Ok(()) };
        self.hash.append(bytes);
        if self.at < *size || std::mem::take(&mut self.hash).finish() == expected {
            return Ok(());
        }
        let cause = io::Error::other("its content does not have its hash");
        Err(Error::new(ErrorKind::Damage, "read the snapshot's copy of").at(absolute(path)).because(cause))
    }
}

impl Read for Opened {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Content { tree, path, size, .. } = &self.content;
        if tree.counts.is_cancelled() || tree.watch.is_over() {
            return Err(io::Error::other("interrupted"));
        }
        let length = self.file.read(buffer).and_then(|length| match length {
            0 if self.at < *size && !buffer.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            length => Ok(length),
        });
        match length {
            Ok(length) => {
                tree.read(length as u64);
                let checked = self.check(&buffer[..length]);
                checked.map(|()| length).map_err(|error| {
                    self.content.tree.counts.problem(error);
                    io::ErrorKind::InvalidData.into()
                })
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => Err(cause),
            Err(cause) => {
                let copy = io::Error::from(cause.kind());
                tree.counts.problem(unreadable::stored("read the snapshot's copy of", absolute(path), cause));
                Err(copy)
            }
        }
    }
}

//! The target of the entries of one directory: the directory in the source and its copy in the staging tree. This file
//! has the calls that every kind of entry needs; `file` and `node` add the entries.

use super::context::Context;
use super::failure::{cannot_make, is_no_name};
use super::reused_file;
use super::source_entry::SourceEntry;
use super::staged::Staged;
use super::staged_directory::{self, StagedDirectory};
use super::stats::Stats;
use crate::error::{Error, Result};
use crate::fs::metadata::Attributes;
use crate::tree::walk::{Directory, absolute};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// Where the entries of one directory are added.
pub(super) struct Target<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) staged: &'a Staged,
    /// The directory in the source.
    pub(super) directory: &'a Directory<StagedDirectory>,
    /// The directory in the staging tree.
    pub(super) above: BorrowedFd<'a>,
}

impl<'a> Target<'a> {
    /// Opens the directory in the staging tree for changes, if it is not open yet.
    pub(super) fn open(
        context: &'a Context<'a>,
        staged: &'a Staged,
        directory: &'a Directory<StagedDirectory>,
        part: &mut Stats,
    ) -> Result<Self> {
        let above = staged_directory::copy(directory, staged, context.monitor, part)?;
        Ok(Target { context, staged, directory, above })
    }

    /// The directory's version in the last snapshot, if it has one.
    pub(super) fn previous_directory(&self) -> Option<BorrowedFd<'_>> {
        let previous = self.context.previous?;
        self.directory.place.previous(previous.tree.as_fd(), &self.directory.path)
    }

    /// The path of an entry in the source.
    pub(super) fn path(&self, found: &SourceEntry<'_>) -> PathBuf {
        absolute(&self.directory.join(found.name))
    }

    /// The error of a call that makes an entry in the snapshot.
    pub(super) fn cannot_make(&self, name: &[u8], errno: Errno) -> Error {
        cannot_make(&self.directory.join(name), errno)
    }

    /// Handles a failed call that gives an entry a part of its metadata: see [`Context::part_failed`].
    pub(super) fn part_failed(&self, name: &[u8], errno: Errno, hint: &str, part: &mut Stats) -> Result<()> {
        self.context.part_failed(&self.directory.join(name), errno, hint, part)
    }

    /// Creates a file that will get these attributes, open for reading and writing, ready for its content.
    pub(super) fn create(&self, found: &SourceEntry<'_>, attributes: &Attributes<'_>) -> rustix::io::Result<OwnedFd> {
        let file = match reused_file::emptied(self.staged, self.above, found, attributes)? {
            Some(file) => file,
            None => {
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mode = Mode::from_bits_truncate(attributes.mode & 0o777);
                rustix::fs::openat(self.above, found.name, flags, mode)?
            }
        };
        self.staged.creator.prepare(&file, attributes)?;
        Ok(file)
    }

    /// Removes a file that was made a moment ago.
    pub(super) fn withdraw(&self, name: &[u8]) -> Result<()> {
        match rustix::fs::unlinkat(self.above, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) if is_no_name(errno) => Ok(()),
            Err(errno) => Err(self.cannot_make(name, errno)),
        }
    }
}

//! The input of each step of a copy: a source directory with its copy, and an entry of it that was examined.

use super::context::Context;
use super::outcome;
use super::place::Place;
use super::stats::Stats;
use crate::error::Result;
use crate::fs::metadata::FileAttr;
use crate::fs::shutdown;
use crate::fs::status::Status;
use crate::tree::walk::Directory;
use crate::tree::writer::{Decision, Failure, Slot, Target as _, Version, Waiting};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// A source directory, and the directory that its entries are copied to.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) directory: &'a Directory<Place>,
}

/// An entry that was examined.
pub(super) struct Seen<'n> {
    pub(super) name: &'n [u8],
    pub(super) status: Status,
    /// The entry with its name in the destination.
    pub(super) existing: Option<Status>,
    pub(super) decision: Decision,
    /// A small file that was opened to examine it.
    pub(super) opened: Option<OwnedFd>,
}

impl Seen<'_> {
    /// Whether it is a regular file.
    pub(super) fn is_file(&self) -> bool {
        self.status.file_type() == FileType::RegularFile
    }

    /// The existing version that may be replaced.
    pub(super) fn replaces(&self) -> Option<Version> {
        self.decision.replaces(self.existing.as_ref())
    }
}

/// The work that remains for a copied entry if it has other names.
#[derive(Debug, Default)]
pub(super) struct Placed {
    /// The seal that the inode gets once it has all its names.
    pub(super) seal: Option<FileAttr>,
    /// Set if its data may not be on the disk yet.
    pub(super) waiting: Option<Waiting>,
}

impl<'a> Pair<'a> {
    /// The directory of the destination.
    pub(super) fn place(&self) -> &'a Place {
        self.directory.place.current()
    }

    /// Its descriptor. `None` in a dry run if it does not exist yet.
    pub(super) fn target(&self) -> Option<&'a OwnedFd> {
        self.place().dir.fd.as_deref()
    }

    /// The name of an entry in the destination.
    pub(super) fn target_name<'n>(&self, name: &'n [u8]) -> &'n [u8]
    where
        'a: 'n,
    {
        self.place().name(name)
    }

    /// The path of an entry, relative to the top of the destination.
    pub(super) fn target_path(&self, name: &[u8]) -> Vec<u8> {
        self.place().join(self.target_name(name))
    }

    /// The path of an entry of the destination, for messages.
    pub(super) fn shown(&self, name: &[u8]) -> PathBuf {
        self.context.shown(&self.target_path(name))
    }

    /// The inode that now has an entry's name in the destination.
    pub(super) fn inode_there(&self, name: &[u8]) -> Option<(u64, u64)> {
        self.place().dir.inode_of(self.target_name(name))
    }

    /// The place of an entry in the destination.
    pub(super) fn slot<'n>(&self, name: &'n [u8]) -> Slot<'a, 'n, Context<'a>>
    where
        'a: 'n,
    {
        self.place().slot(self.context, self.target_name(name), self.context.wanted(self.directory))
    }

    /// The failure of a call on an entry of the source.
    pub(super) fn unreadable(&self, name: &[u8], action: &str, errno: Errno) -> Failure {
        match outcome::source(&self.directory.join(name), action, errno) {
            Failure::Entry(error) if shutdown::is_suspected(errno) && shutdown::is_unreadable(&self.directory.fd) => {
                Failure::Fatal(error.hint("the filesystem of the source has failed: see dmesg(1)"))
            }
            failure => failure,
        }
    }

    /// The failure of a call on an entry of the destination.
    pub(super) fn wrong(&self, name: &[u8], action: &str, errno: Errno) -> Failure {
        self.slot(name).failure(action, errno)
    }

    /// Reports why an entry is skipped, and counts it.
    ///
    /// # Errors
    /// The failure ends the run.
    pub(super) fn skip(&self, failure: Failure, part: &mut Stats) -> Result<()> {
        failure.skipped().map(|error| self.context.problem(&error, part))
    }
}

//! What every step of a run knows: the run itself ([`Context`]), and where the entries of one directory are brought to
//! ([`Target`]). What is done with entries is in `file`, `node` and `tree`; a directory's own part is in `place`.

use super::known::Known;
use super::place::{self, Place};
use super::seen::Seen;
use super::staged::Staged;
use super::stats::Stats;
use super::{Hash, Options, Previous};
use crate::error::{Error, Result};
use crate::exclude::Filter;
use crate::filesystem::Filesystem;
use crate::metadata::{FileAttr, FileAttrs};
use crate::monitor::Monitor;
use crate::mutex::lock;
use crate::snapshot::manifest::Meta;
use crate::status::Status;
use crate::walk::{Directory, absolute};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, OnceLock};

/// A run.
pub(super) struct Context<'a> {
    pub(super) previous: Option<&'a Previous>,
    /// Where the snapshot is made; nowhere in a dry run.
    pub(super) staged: Option<Staged>,
    pub(super) options: &'a Options,
    pub(super) monitor: &'a dyn Monitor,
    /// The repository's own inode, wherever it may be mounted.
    pub(super) repository: Option<Status>,
    /// What of the sources is left out.
    pub(super) filter: Filter,
    /// What the last snapshot has, by content; made when it is first asked for.
    pub(super) known: OnceLock<Known>,
    /// How many bytes were to be hashed before it was made.
    pub(super) hashed: AtomicU64,
    /// Whether a device is the snapshot's filesystem.
    same_filesystem: Mutex<HashMap<u64, bool>>,
    fileattrs: FileAttrs,
}

impl<'a> Context<'a> {
    pub(super) fn new(
        previous: Option<&'a Previous>,
        staged: Option<Staged>,
        repository: Option<Status>,
        filter: Filter,
        options: &'a Options,
        monitor: &'a dyn Monitor,
    ) -> Self {
        let (known, hashed, same_filesystem, fileattrs) = Default::default();
        Context { previous, staged, options, monitor, repository, filter, known, hashed, same_filesystem, fileattrs }
    }

    /// Whether this is the repository's own directory. A frozen copy of it has another device, but is as old to the tick.
    pub(super) fn is_repository(&self, status: &Status) -> bool {
        let is_frozen = |own: &Status| {
            self.options.freeze && own.btime.is_some() && (own.ino, own.btime) == (status.ino, status.btime)
        };
        self.repository.as_ref().is_some_and(|own| own.is_same_inode(status) || is_frozen(own))
    }

    pub(super) fn problem(&self, error: &Error, part: &mut Stats) {
        part.errors += 1;
        self.monitor.problem(error);
    }

    pub(super) fn hashes(&self) -> bool {
        self.options.hash == Hash::New
    }

    /// Flags and project id of an open file or directory of the source, whose record in the last snapshot, if nothing
    /// changed, is `unchanged`: chattr changes the ctime, so that record has them.
    pub(super) fn fileattr(&self, fd: BorrowedFd<'_>, dev: u64, unchanged: Option<&Meta>) -> FileAttr {
        match unchanged.map(Meta::fileattr) {
            Some(known) if known.flags.is_some() => known,
            _ => self.fileattrs.of(fd, dev),
        }
    }

    /// Whether the source's files can share extents with the snapshot, as far as the filesystem decides.
    pub(super) fn is_same_filesystem(&self, dev: u64, fd: BorrowedFd<'_>, staged: &Staged) -> bool {
        let mut known = lock(&self.same_filesystem);
        *known.entry(dev).or_insert_with(|| Filesystem::identify(fd).is_ok_and(|id| id == staged.filesystem.id))
    }
}

/// Where the entries of one directory are brought to.
pub(super) struct Target<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) staged: &'a Staged,
    /// The directory in the source.
    pub(super) directory: &'a Directory<Place>,
    /// The directory in the staging tree.
    pub(super) above: BorrowedFd<'a>,
}

impl<'a> Target<'a> {
    /// Opens the directory in the staging tree for changes, if it is not yet.
    pub(super) fn new(
        context: &'a Context<'a>,
        staged: &'a Staged,
        directory: &'a Directory<Place>,
        part: &mut Stats,
    ) -> Result<Self> {
        let above = place::copy(directory, staged, context.monitor, part)?;
        Ok(Target { context, staged, directory, above })
    }

    /// The directory's version in the last snapshot, if it has one.
    pub(super) fn previous(&self) -> Option<BorrowedFd<'_>> {
        let previous = self.context.previous?;
        self.directory.place.previous(previous.tree.as_fd(), &self.directory.path)
    }

    /// The path of an entry in the source.
    pub(super) fn path(&self, seen: &Seen<'_>) -> PathBuf {
        absolute(&self.directory.join(seen.name))
    }

    /// Tells that an entry was left out, and why.
    pub(super) fn problem(&self, error: &Error, part: &mut Stats) {
        self.context.problem(error, part);
    }

    /// The error of a call that makes an entry in the snapshot.
    pub(super) fn cannot_make(&self, name: &[u8], errno: Errno) -> Error {
        cannot_make(&self.directory.join(name), errno)
    }
}

/// The error of a call that makes something in the snapshot.
pub(super) fn cannot_make(path: &[u8], errno: Errno) -> Error {
    let error = Error::io("make in the snapshot", absolute(path), errno);
    match errno {
        Errno::NOSPC | Errno::DQUOT => {
            error.hint("no snapshot was made, and those before it are whole; free some space and run again")
        }
        _ => error,
    }
}

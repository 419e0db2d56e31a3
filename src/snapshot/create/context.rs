//! The state that every step of a run shares: its options, the last snapshot, the staging tree, the filesystems of the
//! sources. `target` is the place where the entries of one directory are added.

use super::content_index::ContentIndex;
use super::failure::{NAME_TAKEN, cannot_make, is_fatal};
use super::narrowing::Narrowing;
use super::options::{Hash, Options};
use super::previous::Previous;
use super::staged::Staged;
use super::stats::Stats;
use super::watch::Watch;
use crate::error::{Error, Result};
use crate::fs::filesystem::Filesystem;
use crate::fs::flush::Flusher;
use crate::fs::metadata::{FileAttr, FileAttrs};
use crate::fs::status::{Status, Time};
use crate::monitor::Monitor;
use crate::snapshot::devices::Devices;
use crate::snapshot::manifest::Meta;
use crate::tree::exclude::Filter;
use crate::util::mutex::lock;
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, OnceLock};

/// The repository's own directory, wherever it may be mounted, and its frozen copy.
pub(super) struct Own {
    pub(super) status: Status,
    /// The device of the frozen copy of its subvolume. The directory has the same inode number there.
    pub(super) frozen: Option<u64>,
}

impl Own {
    fn is(&self, status: &Status) -> bool {
        self.status.is_same_inode(status)
            || self.frozen.is_some_and(|dev| (dev, self.status.ino) == (status.dev, status.ino))
    }
}

/// A run.
pub(super) struct Context<'a> {
    pub(super) previous: Option<&'a Previous>,
    /// Where the snapshot is made; `None` in a dry run.
    pub(super) staged: Option<Staged>,
    pub(super) options: &'a Options,
    pub(super) monitor: &'a dyn Monitor,
    /// The repository's own directory.
    pub(super) repository: Option<Own>,
    /// Entries of the sources that are skipped.
    pub(super) filter: Filter,
    /// The filesystems of the sources.
    pub(super) devices: Devices,
    /// Flushes files before they are read.
    pub(super) flusher: Flusher,
    /// The last snapshot's files by content; built when first needed.
    pub(super) content_index: OnceLock<ContentIndex>,
    /// The part of the sources that is looked at; `None`: everything.
    pub(super) narrowing: Option<Narrowing>,
    /// Notes what the run sees, for the next run.
    pub(super) watch: Option<Watch>,
    /// How many bytes were hashed without the index.
    pub(super) hashed: AtomicU64,
    /// Whether a device is the snapshot's filesystem.
    same_filesystem: Mutex<HashMap<u64, bool>>,
    fileattrs: FileAttrs,
}

impl<'a> Context<'a> {
    pub(super) fn new(
        previous: Option<&'a Previous>,
        staged: Option<Staged>,
        repository: Option<Own>,
        (filter, watch, narrowing): (Filter, Option<Watch>, Option<Narrowing>),
        begun: Option<Time>,
        options: &'a Options,
        monitor: &'a dyn Monitor,
    ) -> Self {
        let (flusher, content_index, hashed, same_filesystem, fileattrs) = Default::default();
        let devices = Devices::new(previous.map(|previous| &previous.reader), begun);
        Context {
            previous,
            staged,
            options,
            monitor,
            repository,
            filter,
            devices,
            flusher,
            content_index,
            narrowing,
            watch,
            hashed,
            same_filesystem,
            fileattrs,
        }
    }

    /// Whether this is the repository's own directory.
    pub(super) fn is_repository(&self, status: &Status) -> bool {
        self.repository.as_ref().is_some_and(|own| own.is(status))
    }

    pub(super) fn problem(&self, error: &Error, part: &mut Stats) {
        part.errors += 1;
        self.monitor.problem(error);
    }

    /// Handles a failed call that makes the entry at `path` in the snapshot: reports the entry with this hint, and lets
    /// the run continue.
    ///
    /// # Errors
    /// If the run must end: see [`is_fatal`].
    pub(super) fn entry_failed(&self, path: &[u8], errno: Errno, hint: &str, part: &mut Stats) -> Result<()> {
        let error = cannot_make(path, errno);
        if is_fatal(errno) {
            return Err(error);
        }
        let hint = if errno == Errno::EXIST { NAME_TAKEN } else { hint };
        self.problem(&error.hint(hint), part);
        Ok(())
    }

    /// Handles a failed call that gives an entry a part of its metadata. The entry itself is in the snapshot.
    ///
    /// # Errors
    /// If the run must end: see [`is_fatal`].
    pub(super) fn part_failed(&self, path: &[u8], errno: Errno, hint: &str, part: &mut Stats) -> Result<()> {
        let error = cannot_make(path, errno).keeping_entry();
        if is_fatal(errno) {
            return Err(error);
        }
        self.problem(&error.hint(hint), part);
        Ok(())
    }

    pub(super) fn hashes(&self) -> bool {
        self.options.hash == Hash::New
    }

    /// The flags and the project id of an open file or directory of the source. `unchanged` is its record in the last
    /// snapshot if nothing changed. chattr changes the ctime, so that record is still right.
    pub(super) fn fileattr(&self, fd: BorrowedFd<'_>, dev: u64, unchanged: Option<&Meta>) -> FileAttr {
        match unchanged.map(Meta::fileattr) {
            Some(known) if known.flags.is_some() => known,
            _ => self.fileattrs.of(fd, dev),
        }
    }

    /// Whether the filesystem lets the source's files share extents with the snapshot.
    pub(super) fn is_same_filesystem(&self, dev: u64, fd: BorrowedFd<'_>, staged: &Staged) -> bool {
        let mut known = lock(&self.same_filesystem);
        *known.entry(dev).or_insert_with(|| Filesystem::identify(fd).is_ok_and(|id| id == staged.filesystem.id))
    }
}

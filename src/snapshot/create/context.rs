//! What every step of a run knows: the run itself ([`Context`]), and where the entries of one directory are brought to
//! ([`Target`]). What is done with entries is in `file`, `node` and `tree`; a directory's own part is in `place`.

use super::content_index::ContentIndex;
use super::devices::Devices;
use super::place::{self, Place};
use super::seen::Seen;
use super::staged::Staged;
use super::stats::Stats;
use super::{Hash, Options, Previous};
use crate::content::copy;
use crate::error::{Error, Result};
use crate::fs::filesystem::Filesystem;
use crate::fs::flush::Flusher;
use crate::fs::metadata::{FileAttr, FileAttrs};
use crate::fs::status::{Status, Time};
use crate::monitor::Monitor;
use crate::snapshot::manifest::Meta;
use crate::tree::exclude::Filter;
use crate::tree::walk::{Directory, absolute};
use crate::util::mutex::lock;
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, OnceLock};

/// The repository's own directory, wherever it may be mounted, and its frozen copy.
pub(super) struct Own {
    pub(super) status: Status,
    /// The device of the frozen copy of its subvolume, in which it has the same inode number.
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
    /// Where the snapshot is made; nowhere in a dry run.
    pub(super) staged: Option<Staged>,
    pub(super) options: &'a Options,
    pub(super) monitor: &'a dyn Monitor,
    /// The repository's own directory.
    pub(super) repository: Option<Own>,
    /// What of the sources is left out.
    pub(super) filter: Filter,
    /// The filesystems of the sources.
    pub(super) devices: Devices,
    /// Flushes files before they are read.
    pub(super) flusher: Flusher,
    /// What the last snapshot has, by content; made when it is first asked for.
    pub(super) known: OnceLock<ContentIndex>,
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
        repository: Option<Own>,
        filter: Filter,
        begun: Option<Time>,
        options: &'a Options,
        monitor: &'a dyn Monitor,
    ) -> Self {
        let (flusher, known, hashed, same_filesystem, fileattrs) = Default::default();
        let devices = Devices::new(previous, begun);
        Context {
            previous,
            staged,
            options,
            monitor,
            repository,
            filter,
            devices,
            flusher,
            known,
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

    /// A call that makes the entry at `path` in the snapshot failed. The entry is reported, with a hint at what became of it,
    /// and the run goes on.
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

    /// A call that makes an entry in the snapshot failed: see [`Context::entry_failed`].
    pub(super) fn entry_failed(&self, name: &[u8], errno: Errno, hint: &str, part: &mut Stats) -> Result<()> {
        self.context.entry_failed(&self.directory.join(name), errno, hint, part)
    }
}

/// Whether an error of a call that makes something in the snapshot ends the run, because every further entry would meet it.
/// All other errors are the one entry's: somebody may have made it just so that this filesystem cannot take it.
pub(super) fn is_fatal(errno: Errno) -> bool {
    copy::is_fatal(errno) || matches!(errno, Errno::IO | Errno::UCLEAN | Errno::NOMEM)
}

/// Why a name exists in a staging tree where nobody else makes any.
pub(super) const NAME_TAKEN: &str =
    "the repository already has another entry there: its name differs in upper and lower case only";

/// Whether a name cannot be on a filesystem at all.
pub(super) fn is_no_name(errno: Errno) -> bool {
    matches!(errno, Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ)
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

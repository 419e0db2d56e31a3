//! A snapshot of an earlier time: a tree that another program kept, recorded under the path that it is a copy of.
//!
//! The walk uses the recorded path, and the tree replaces the directory there. Directories on the way to that path are
//! taken from a scaffold of empty ones, because the live ones may be missing or belong to another machine.

use super::options::Options;
use crate::error::{Error, Result};
use crate::fs::filesystem::Kind;
use crate::fs::openat;
use crate::fs::status::Status;
use crate::monitor::Monitor;
use crate::snapshot::manifest::{Directory, Item, Reader, Time};
use crate::snapshot::repository::{self, Clearing, Repository};
use crate::sys::btrfs::logical::EMPTY_SUBVOLUME;
use crate::tree::walk::{Identity, Sources, StandIns};
use crate::util::path::is_below;
use crate::util::text;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

const READ: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A tree that becomes a snapshot of an earlier time.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    /// The backup, an absolute path.
    pub(crate) backup: PathBuf,
    /// The directory that was there when its time was found out.
    pub(crate) found: Status,
    /// The path of the tree in it. No link in this path is followed. Empty: the backup itself.
    pub(crate) part: PathBuf,
    /// The absolute path that the tree is a copy of.
    pub(crate) source: PathBuf,
    /// When it was made.
    pub(crate) created: Time,
}

/// The directories on the way to the recorded path. They are removed when the run ends, in whatever way; those of a
/// killed run are cleared with its other leftovers.
#[derive(Debug, Default)]
pub(super) struct Scaffold {
    /// Each with the directory that it lies in, the deepest last.
    made: Vec<(OwnedFd, Vec<u8>)>,
}

impl Past {
    /// The source as the manifest has it.
    pub(super) fn sources(&self) -> Sources {
        Sources::exact(vec![self.source.clone()])
    }

    /// The path of the tree.
    pub(crate) fn tree(&self) -> PathBuf {
        if self.part.as_os_str().is_empty() { self.backup.clone() } else { self.backup.join(&self.part) }
    }

    /// Opens the tree.
    ///
    /// # Errors
    /// If it is missing, is not a directory, or lies behind a symbolic link, or if the backup is another one than
    /// before.
    pub(crate) fn open(&self) -> Result<OwnedFd> {
        let failed = |errno: Errno| {
            let error = Error::io("open the backup", self.tree(), errno);
            match errno {
                Errno::LOOP | Errno::NOTDIR => error.hint("it is not a directory, or lies behind a symbolic link"),
                _ => error,
            }
        };
        let top = rustix::fs::openat(CWD, &self.backup, READ, Mode::empty()).map_err(failed)?;
        let now = Status::of(&top).map_err(failed)?;
        let is_same = Identity::of(&self.found).is(&now) || !Kind::of(&top).is_ok_and(Kind::has_stable_numbers);
        if !is_same || now.mtime != self.found.mtime {
            return Err(self.changed(&self.backup));
        }
        openat::open_dir(top.as_fd(), self.part.as_os_str().as_bytes()).map_err(failed)
    }

    /// Checks that the tree is still there as this manifest has it, by the times of its directories.
    ///
    /// # Errors
    /// If a directory is gone, changed, or is another one. Then entries may be missing in the snapshot, or belong to
    /// another backup: its program renames and deletes old ones.
    pub(super) fn check_unchanged(&self, manifest: &Reader) -> Result<()> {
        let (tree, source) = (self.open()?, without_slash(&self.source));
        let kind = Kind::of(&tree).unwrap_or(Kind::UNKNOWN);
        for item in manifest.items_from(source) {
            let Item::Directory(Directory { path, meta, .. }) = item? else { continue };
            if !is_below(&path, source) {
                break;
            }
            // The times in place of a subvolume that a Btrfs snapshot lacks are those of the moment.
            if kind == Kind::Btrfs && meta.ino == EMPTY_SUBVOLUME {
                continue;
            }
            let below = path[source.len()..].strip_prefix(b"/").unwrap_or(&path[source.len()..]);
            let below = if below.is_empty() { b"." } else { below };
            let now = openat::open_way(tree.as_fd(), below).and_then(Status::of);
            let is_same = now.is_ok_and(|now| {
                (now.mtime, now.ctime) == (meta.mtime, meta.ctime)
                    && (now.ino == meta.ino || !kind.has_stable_numbers())
            });
            if !is_same {
                let path: PathBuf = self.tree().join(OsStr::from_bytes(below)).components().collect();
                return Err(self.changed(&path));
            }
        }
        Ok(())
    }

    fn changed(&self, path: &Path) -> Error {
        let error = Error::failed("adopt the backup").at(&self.backup);
        let cause = std::io::Error::other(format!("{} changed meanwhile", text::path(path)));
        error.because(cause).hint("no snapshot of it was made; run again when no other program works on the backups")
    }

    /// The directories that the walk reads in place of the live directories.
    ///
    /// # Errors
    /// If the tree cannot be opened, or directories cannot be made in the staging area.
    pub(super) fn stand_ins(&self, repository: &Repository) -> Result<(StandIns, Scaffold)> {
        let path = without_slash(&self.source);
        let tree = self.open()?;
        let (mut stand_ins, mut scaffold) = (StandIns::without_living(), Scaffold::default());
        if !path.is_empty() {
            stand_ins.put(b"", scaffold.make(repository, path)?);
        }
        stand_ins.put(path, tree);
        Ok((stand_ins, scaffold))
    }
}

impl Scaffold {
    /// Makes the directories, and returns the one that replaces the root.
    fn make(&mut self, repository: &Repository, path: &[u8]) -> Result<OwnedFd> {
        let failed = |errno: Errno| Error::io("make directories in", repository.path(), errno);
        let top = repository::frozen_dir(repository)?;
        let mut above = top.as_fd().try_clone_to_owned().map_err(|cause| Error::failed("open").because(cause))?;
        for name in [b"past".as_slice()].into_iter().chain(path.split(|byte| *byte == b'/')) {
            rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o755)).map_err(failed)?;
            let next = openat::open_subdir(&above, name).map_err(failed)?;
            self.made.push((std::mem::replace(&mut above, next), name.to_vec()));
        }
        openat::open_subdir(&top, b"past".as_slice()).map_err(failed)
    }
}

impl Drop for Scaffold {
    fn drop(&mut self) {
        for (above, name) in self.made.iter().rev() {
            // The next run clears a directory that stays.
            let _ = rustix::fs::unlinkat(above, name.as_slice(), AtFlags::REMOVEDIR);
        }
    }
}

fn without_slash(path: &Path) -> &[u8] {
    let path = path.as_os_str().as_bytes();
    path.strip_prefix(b"/").unwrap_or(path)
}

/// Ends a run that found all its snapshots of the past in the repository: the run that made them may have been killed
/// after the last one. Returns the number of problems.
///
/// # Errors
/// If the repository cannot be locked, or the run is cancelled.
pub(crate) fn end_past(repo: &Path, options: &Options, monitor: &dyn Monitor) -> Result<u64> {
    let repository = Repository::open(repo)?;
    let _lock = repository.lock(monitor)?;
    let clearing = Clearing::new(monitor);
    let _ = repository::correct_latest(&repository).inspect_err(|error| clearing.problem(error));
    repository::clear_leftovers(&repository, &[], options.threads_for(true), &clearing)?;
    Ok(clearing.errors())
}

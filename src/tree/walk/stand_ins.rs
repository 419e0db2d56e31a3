//! Directories that are read in the place of those at their paths: a frozen copy of a tree instead of the tree that
//! lives.
//!
//! All below such a directory is read from it as well, up to the next one. A Btrfs snapshot has no subvolumes in it: an
//! empty directory is in the place of each. The walk then reads the live subvolume and remembers its path.

use crate::fs::filesystem::Kind;
use crate::fs::openat;
use crate::util::mutex::lock;
use rustix::fs::{Mode, OFlags};
use rustix::io::Result;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

/// `BTRFS_EMPTY_SUBVOL_DIR_OBJECTID`: the inode number of the directory that replaces a subvolume in a snapshot.
const EMPTY_SUBVOLUME: u64 = 2;

/// The directories that replace others, by the absolute paths of the replaced ones without the leading slash.
#[derive(Clone, Debug, Default)]
pub struct StandIns {
    directories: BTreeMap<Vec<u8>, Arc<OwnedFd>>,
    living: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl StandIns {
    /// Has `directory` read in the place of the one at `path`.
    pub fn put(&mut self, path: &[u8], directory: OwnedFd) {
        self.directories.insert(path.to_vec(), Arc::new(directory));
    }

    /// Whether no directory replaces another.
    pub fn is_empty(&self) -> bool {
        self.directories.is_empty()
    }

    /// The paths of subvolumes that were read as they live, since a snapshot does not reach into them.
    pub fn living(&self) -> Vec<Vec<u8>> {
        let mut paths = lock(&self.living).clone();
        paths.sort();
        paths
    }

    /// Opens the directory that replaces the one at `path`, if one does.
    pub(super) fn open(&self, path: &[u8], flags: OFlags) -> Option<Result<OwnedFd>> {
        let directory = self.directories.get(path)?;
        Some(rustix::fs::openat(directory.as_fd(), c".", flags, Mode::empty()))
    }

    /// Opens the living directory at `path` if what has been opened there, with the inode number `ino`, only stands for
    /// it.
    pub(super) fn living_instead(
        &self,
        path: &[u8],
        opened: &OwnedFd,
        ino: u64,
        flags: OFlags,
    ) -> Option<Result<OwnedFd>> {
        // Elsewhere the number is a directory's as any other: the root of an ext4 has it.
        if self.directories.is_empty() || ino != EMPTY_SUBVOLUME || Kind::of(opened) != Ok(Kind::Btrfs) {
            return None;
        }
        let top = rustix::fs::open(c"/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let living =
            top.and_then(|top| openat::without_access(|access| openat::open(top.as_fd(), path, flags | access)));
        if living.is_ok() {
            lock(&self.living).push(path.to_vec());
        }
        Some(living)
    }
}

//! Directories that are read in place of those at their paths: a frozen copy of a tree instead of the live tree.
//!
//! Everything below such a directory is also read from it, up to the next replaced directory. A Btrfs snapshot does not
//! contain the subvolumes below: it has an empty directory in place of each. The walk then reads the live subvolume and
//! records its path.

use crate::fs::filesystem::Kind;
use crate::fs::openat;
use crate::sys::btrfs::logical::EMPTY_SUBVOLUME;
use crate::util::mutex::lock;
use rustix::fs::{Mode, OFlags};
use rustix::io::Result;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

/// The directories that replace others, by the absolute paths of the replaced directories, without the leading slash.
#[derive(Clone, Debug, Default)]
pub(crate) struct StandIns {
    directories: BTreeMap<Vec<u8>, Arc<OwnedFd>>,
    living: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Whether the placeholder of a subvolume stays an empty directory.
    keeps_placeholders: bool,
}

impl StandIns {
    /// For trees of an earlier time: nothing is read live.
    pub(crate) fn without_living() -> StandIns {
        StandIns { keeps_placeholders: true, ..StandIns::default() }
    }

    /// Makes the walk read `directory` in place of the one at `path`.
    pub(crate) fn put(&mut self, path: &[u8], directory: OwnedFd) {
        self.directories.insert(path.to_vec(), Arc::new(directory));
    }

    /// Whether no directory replaces another.
    pub(crate) fn is_empty(&self) -> bool {
        self.directories.is_empty()
    }

    /// The paths of subvolumes that were read live, because a snapshot does not contain them.
    pub(crate) fn living(&self) -> Vec<Vec<u8>> {
        let mut paths = lock(&self.living).clone();
        paths.sort();
        paths
    }

    /// Opens the directory that replaces the one at `path`, if one does.
    pub(super) fn open(&self, path: &[u8], flags: OFlags) -> Option<Result<OwnedFd>> {
        let directory = self.directories.get(path)?;
        Some(rustix::fs::openat(directory.as_fd(), c".", flags, Mode::empty()))
    }

    /// Opens the live directory at `path` if the opened directory, with the inode number `ino`, is only the placeholder
    /// of a subvolume.
    pub(super) fn living_instead(
        &self,
        path: &[u8],
        opened: &OwnedFd,
        ino: u64,
        flags: OFlags,
    ) -> Option<Result<OwnedFd>> {
        // On other filesystems this inode number is normal: the root of an ext4 has it.
        if self.directories.is_empty()
            || self.keeps_placeholders
            || ino != EMPTY_SUBVOLUME
            || Kind::of(opened) != Ok(Kind::Btrfs)
        {
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

//! A directory of a restore, open in the snapshot and in the target.
//!
//! Entries and jobs that wait share it, so it is never closed in place, unlike a directory of a copy. `levels` drops
//! its own reference, and keeps the data to open the directory again and the mark of names that wait for a sync.

use crate::fs::mounts::Inside;
use crate::fs::reopener::{Inode, Reopener};
use crate::fs::status::Status;
use crate::tree::deletion::in_place::Mounts;
use crate::tree::walk::PathNode;
use crate::tree::writer::{Devices, Failure, Inherited, Parent, Slot, Target, TargetDir, Wanted};
use crate::util::path::join;
use rustix::io::{Errno, Result};
use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// A directory of the snapshot, and the directory of the target that it is restored to.
pub(super) struct Place {
    /// Its path in the snapshot.
    node: Arc<PathNode>,
    /// The directory in the snapshot's tree.
    pub(super) source: OwnedFd,
    /// The directory in the target.
    pub(super) dir: TargetDir,
    /// Whether the directory in the target is the same directory that the snapshot was taken of.
    pub(super) is_origin: bool,
    /// Whether the directory in the target is on a filesystem that is mounted below the restored one. It may not be the
    /// filesystem of the snapshot, so nothing is deleted there.
    pub(super) is_beyond_mount: bool,
    /// The mounts inside it, once a dry run has asked for them.
    mounts: OnceLock<Vec<Inside>>,
}

/// A directory that was closed to save descriptors.
pub(super) struct Closed {
    node: Arc<PathNode>,
    source: Inode,
    target: Option<Inode>,
    is_origin: bool,
    pub(super) is_beyond_mount: bool,
    is_waiting: Arc<AtomicBool>,
}

impl Place {
    /// The directory with this path, as it was opened. `target` is `None` in a dry run if it does not exist yet.
    /// `is_origin`: it is the directory that the snapshot was taken of.
    pub(super) fn new(
        devices: &Devices,
        node: Arc<PathNode>,
        source: OwnedFd,
        target: Option<OwnedFd>,
        is_origin: bool,
    ) -> Result<Place> {
        Place::again(devices, node, (source, target), (is_origin, false), Arc::default())
    }

    fn again(
        devices: &Devices,
        node: Arc<PathNode>,
        (source, target): (OwnedFd, Option<OwnedFd>),
        (is_origin, is_beyond_mount): (bool, bool),
        is_waiting: Arc<AtomicBool>,
    ) -> Result<Place> {
        let inherited = target.as_ref().map_or(Inherited::default(), Inherited::of);
        let dir = TargetDir::again(devices, target, inherited, is_waiting)?;
        Ok(Place { node, source, dir, is_origin, is_beyond_mount, mounts: OnceLock::new() })
    }

    /// The data that is needed to open it again.
    pub(super) fn closed(&self) -> Result<Closed> {
        let source = Status::of(&self.source).map(|status| (status.dev, status.ino))?;
        let target = self.dir.identity()?;
        let (node, is_waiting) = (Arc::clone(&self.node), self.dir.waiting_mark());
        let Place { is_origin, is_beyond_mount, .. } = *self;
        Ok(Closed { node, source, target, is_origin, is_beyond_mount, is_waiting })
    }

    /// Its path in the snapshot.
    pub(super) fn path(&self) -> Vec<u8> {
        self.node.path()
    }

    /// The path of an entry.
    pub(super) fn join(&self, name: &[u8]) -> Vec<u8> {
        join(&self.path(), name)
    }

    /// The path of a subdirectory, which shares the names above it.
    pub(super) fn child(&self, name: &[u8]) -> Arc<PathNode> {
        self.node.child(name)
    }

    /// The place of an entry in the target.
    pub(super) fn slot<'d, 'n, T: Target>(&'d self, run: &'d T, name: &'n [u8]) -> Slot<'d, 'n, T> {
        Slot { run, parent: self, name, wanted: Wanted::Of(self.source.as_fd()) }
    }

    /// The failure of a call on an entry.
    pub(super) fn failure(&self, target: &impl Target, name: &[u8], action: &str, errno: Errno) -> Failure {
        self.slot(target, name).failure(action, errno)
    }

    /// Those of these names in the target that lead to entries of the snapshot, although the snapshot has these entries
    /// under other names.
    pub(super) fn found_under_others(&self, names: &[Vec<u8>]) -> Result<HashSet<Vec<u8>>> {
        self.dir.found_under_others(names, Wanted::Of(self.source.as_fd()))
    }

    /// Whether something is mounted on this entry of the target, or below it, as it was when this was first asked. If
    /// this is unknown, it counts as mounted.
    pub(super) fn has_mount_at(&self, mounts: &Mounts, name: &[u8]) -> bool {
        let Some(target) = &self.dir.fd else { return false };
        let inside = match self.mounts.get() {
            Some(inside) => inside,
            None => match mounts.inside(target.as_fd()) {
                Ok(found) => self.mounts.get_or_init(|| found),
                Err(_) => return true,
            },
        };
        inside.iter().any(|mount| mount.is_at(name))
    }
}

impl Parent for Place {
    fn dir(&self) -> &TargetDir {
        &self.dir
    }

    fn join(&self, name: &[u8]) -> Vec<u8> {
        Place::join(self, name)
    }
}

impl Closed {
    /// Opens the directory again; `path` is its path.
    ///
    /// # Errors
    /// `STALE` if another directory is there.
    pub(super) fn reopen(
        &self,
        devices: &Devices,
        path: &[u8],
        (source, target): (&Reopener, Option<&Reopener>),
    ) -> Result<Place> {
        let opened = source.open(path, self.source)?;
        let target = match (target, self.target) {
            (Some(target), Some(inode)) => Some(target.open(path, inode)?),
            _ => None,
        };
        let (node, is_waiting) = (Arc::clone(&self.node), Arc::clone(&self.is_waiting));
        Place::again(devices, node, (opened, target), (self.is_origin, self.is_beyond_mount), is_waiting)
    }
}

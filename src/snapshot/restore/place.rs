//! A directory of a restore, open in the snapshot and in the target.

use super::Context;
use super::outcome::{self, Attempt, Failure};
use super::selection::join;
use crate::fs::mounts::Inside;
use crate::fs::reopener::{Inode, Reopener};
use crate::fs::status::Status;
use crate::tree::walk::PathNode;
use crate::tree::writer::{Aliases, Device, Inherited, Owner, Wanted, is_another};
use rustix::io::{Errno, Result};
use std::collections::HashSet;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A directory of the snapshot and where it is restored.
pub(super) struct Place {
    /// Its path in the snapshot.
    node: Arc<PathNode>,
    /// It in the snapshot's tree.
    pub(super) source: OwnedFd,
    /// It in the target; none in a dry run where there is nothing yet.
    pub(super) target: Option<Arc<OwnedFd>>,
    /// The filesystem of the target.
    pub(super) device: Arc<Device>,
    /// What new entries of the target inherit.
    pub(super) ground: Inherited,
    /// Names in it are replaced after the next sync. Shared by all that opens it again.
    is_pending: Arc<AtomicBool>,
    /// The mounts inside it, once a dry run has asked for them.
    mounts: OnceLock<Vec<Inside>>,
    /// The names that the target takes for one.
    aliases: Aliases,
}

/// A directory that was closed to save descriptors.
pub(super) struct Closed {
    node: Arc<PathNode>,
    source: Inode,
    target: Option<Inode>,
    is_pending: Arc<AtomicBool>,
}

impl Place {
    /// The directory with this path, as it was opened.
    pub(super) fn new(
        context: &Context<'_>,
        node: Arc<PathNode>,
        source: OwnedFd,
        target: Option<OwnedFd>,
    ) -> Result<Place> {
        Place::with(context, node, source, target, Arc::default())
    }

    fn with(
        context: &Context<'_>,
        node: Arc<PathNode>,
        source: OwnedFd,
        target: Option<OwnedFd>,
        is_pending: Arc<AtomicBool>,
    ) -> Result<Place> {
        let device = context.devices.of(target.as_ref())?;
        let ground = target.as_ref().map_or(Inherited::default(), Inherited::of);
        let target = target.map(Arc::new);
        Ok(Place {
            node,
            source,
            target,
            device,
            ground,
            is_pending,
            mounts: OnceLock::new(),
            aliases: Aliases::default(),
        })
    }

    /// What is needed to open it again.
    pub(super) fn closed(&self) -> Result<Closed> {
        let source = inode(&self.source)?;
        let target = self.target.as_ref().map(inode).transpose()?;
        Ok(Closed { node: Arc::clone(&self.node), source, target, is_pending: Arc::clone(&self.is_pending) })
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

    /// A name in it is replaced after the next sync.
    pub(super) fn waits_for_sync(&self) {
        self.is_pending.store(true, Ordering::Relaxed);
    }

    /// Whether names in it are replaced after the next sync.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_pending.load(Ordering::Relaxed)
    }

    /// Fails if the entry that is found under a name in the target is another one's of the snapshot, which must not be lost.
    pub(super) fn refuse_another(&self, context: &Context<'_>, name: &[u8]) -> Attempt<()> {
        let Some(target) = &self.target else { return Ok(()) };
        let shown = |name: &[u8]| context.shown(&self.join(name));
        match self.aliases.owner(target, &self.device, name, Wanted::Of(self.source.as_fd())) {
            Ok(Owner::Itself) => Ok(()),
            Ok(Owner::Other(other)) => {
                let other = other.map(|other| shown(&other));
                Err(Failure::Entry(is_another("restore", &shown(name), other.as_deref())))
            }
            Err(errno) => {
                Err(outcome::failure_at(context, &shown(name), "compare the names in the directory of", errno))
            }
        }
    }

    /// Those of these names in the target that entries of the snapshot are found under, although it has them under others.
    pub(super) fn found_under_others(&self, names: &[Vec<u8>]) -> Result<HashSet<Vec<u8>>> {
        let target = self.target.as_ref().ok_or(Errno::BADF)?;
        self.aliases.found(target, &self.device, names, Wanted::Of(self.source.as_fd()))
    }

    /// Whether something is mounted on this entry of the target, or below it, as it was when this was first asked. What
    /// cannot be known counts as mounted.
    pub(super) fn has_mount_at(&self, context: &Context<'_>, name: &[u8]) -> bool {
        let Some(target) = &self.target else { return false };
        let mounts = match self.mounts.get() {
            Some(mounts) => mounts,
            None => match context.mounts.inside(target.as_fd()) {
                Ok(found) => self.mounts.get_or_init(|| found),
                Err(_) => return true,
            },
        };
        mounts.iter().any(|mount| mount.is_at(name))
    }
}

impl Closed {
    /// Opens the directory again; `path` is its path.
    ///
    /// # Errors
    /// `STALE` if another one is there.
    pub(super) fn reopen(
        &self,
        context: &Context<'_>,
        path: &[u8],
        (source, target): (&Reopener, Option<&Reopener>),
    ) -> Result<Place> {
        let opened = source.open(path, self.source)?;
        let target = match (target, self.target) {
            (Some(target), Some(inode)) => Some(target.open(path, inode)?),
            _ => None,
        };
        Place::with(context, Arc::clone(&self.node), opened, target, Arc::clone(&self.is_pending))
    }
}

fn inode(fd: impl std::os::fd::AsFd) -> Result<Inode> {
    Status::of(fd).map(|status| (status.dev, status.ino))
}

//! A directory of a restore, open in the snapshot and in the target.

use super::Context;
use super::selection::join;
use crate::beneath;
use crate::error::{Error, Result};
use crate::staging::{Device, Ground};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// A directory of the snapshot and where it is restored.
pub(super) struct Place {
    /// Its path in the snapshot.
    pub(super) path: Vec<u8>,
    /// It in the snapshot's tree.
    pub(super) source: OwnedFd,
    /// It in the target; none in a dry run where there is nothing yet.
    pub(super) target: Option<OwnedFd>,
    /// The filesystem of the target.
    pub(super) device: Arc<Device>,
    /// What the target hands down to what is made in it.
    pub(super) ground: Ground,
}

impl Place {
    /// Opens a directory from the tops of the snapshot's tree and of the target.
    pub(super) fn from_top(
        context: &Context<'_>,
        (source, target): (&OwnedFd, Option<&OwnedFd>),
        path: &[u8],
    ) -> Result<Place> {
        let failed = |errno| Error::io("open the directory", context.shown(path), errno);
        let source = beneath::open_dir(source.as_fd(), path).map_err(failed)?;
        let target = match target.map(|target| beneath::open_dir(target.as_fd(), path)) {
            Some(Ok(target)) => Some(target),
            // A dry run made no directory where there is none.
            Some(Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) if context.options.dry_run => None,
            Some(Err(errno)) => return Err(failed(errno)),
            None => None,
        };
        Place::new(context, path, source, target).map_err(failed)
    }

    pub(super) fn new(
        context: &Context<'_>,
        path: &[u8],
        source: OwnedFd,
        target: Option<OwnedFd>,
    ) -> rustix::io::Result<Place> {
        let device = context.devices.of(target.as_ref())?;
        let ground = target.as_ref().map_or(Ground::default(), Ground::of);
        Ok(Place { path: path.to_vec(), source, target, device, ground })
    }

    /// The path of an entry.
    pub(super) fn join(&self, name: &[u8]) -> Vec<u8> {
        join(&self.path, name)
    }
}

//! A directory of a restore, open in the snapshot and in the target, and the filesystem that it lies on there.

use super::Context;
use super::selection::join;
use crate::beneath;
use crate::copy::Ladder;
use crate::error::{Error, Result};
use crate::filesystem::Kind;
use crate::metadata::{FileAttr, PROJECT_INHERIT};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
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
    /// Whether the target hands something down to what is made in it: an access control list, flags.
    pub(super) inherits: bool,
    /// The project id that a file made in the target has.
    pub(super) project: u32,
}

impl Place {
    /// Opens a directory from the tops of the snapshot's tree and of the target.
    pub(super) fn from_top(
        context: &Context<'_>,
        devices: &mut Devices,
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
        Place::new(devices, path, source, target).map_err(failed)
    }

    pub(super) fn new(
        devices: &mut Devices,
        path: &[u8],
        source: OwnedFd,
        target: Option<OwnedFd>,
    ) -> rustix::io::Result<Place> {
        let device = devices.of(target.as_ref())?;
        let fileattr = target.as_ref().map_or(FileAttr::default(), FileAttr::of);
        let flags = fileattr.flags.unwrap_or(0);
        let inherits = flags != 0 || target.as_ref().is_some_and(has_default_acl);
        let project = if flags & PROJECT_INHERIT != 0 { fileattr.project.unwrap_or(0) } else { 0 };
        Ok(Place { path: path.to_vec(), source, target, device, inherits, project })
    }

    /// The path of an entry.
    pub(super) fn join(&self, name: &[u8]) -> Vec<u8> {
        join(&self.path, name)
    }
}

/// A filesystem of the target: what clones onto it came to, and a descriptor to sync it by.
pub(super) struct Device {
    pub(super) ladder: Ladder,
    /// Its kind, where that is known.
    pub(super) kind: Option<Kind>,
    any: Option<OwnedFd>,
}

/// The filesystems of the target, by `st_dev`.
#[derive(Default)]
pub(super) struct Devices(HashMap<u64, Arc<Device>>);

impl Devices {
    fn of(&mut self, target: Option<&OwnedFd>) -> rustix::io::Result<Arc<Device>> {
        let dev = target.map(|fd| rustix::fs::fstat(fd).map(|stat| stat.st_dev)).transpose()?.unwrap_or(0);
        if let Some(device) = self.0.get(&dev) {
            return Ok(Arc::clone(device));
        }
        let any = target.map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 0)).transpose()?;
        let kind = any.as_ref().and_then(|fd| Kind::of(fd).ok());
        let device = Arc::new(Device { ladder: Ladder::new(), kind, any });
        self.0.insert(dev, Arc::clone(&device));
        Ok(device)
    }

    /// Writes all that was restored to the disks.
    pub(super) fn sync(&self, target: &Path) -> Result<()> {
        for fd in self.0.values().filter_map(|device| device.any.as_ref()) {
            rustix::fs::syncfs(fd).map_err(|errno| Error::io("sync the target", target, errno))?;
        }
        Ok(())
    }
}

fn has_default_acl(dir: &OwnedFd) -> bool {
    // One byte is never enough for one, so there is none only where the kernel says so.
    let found = rustix::fs::fgetxattr(dir, "system.posix_acl_default", &mut [0_u8; 1]);
    matches!(found, Ok(_) | Err(Errno::RANGE))
}

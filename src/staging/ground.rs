//! Where something is made: the filesystems that are written to, and what a directory hands down.

use crate::copy::Ladder;
use crate::error::{Error, Result};
use crate::filesystem::Kind;
use crate::metadata::{FileAttr, PROJECT_INHERIT, SEALS};
use crate::mutex::lock;
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A filesystem that is written to: what clones onto it came to, and a descriptor to sync it by.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) ladder: Ladder,
    /// Its kind, where that is known.
    pub(crate) kind: Option<Kind>,
    any: Option<OwnedFd>,
}

/// The filesystems that are written to, by `st_dev`.
#[derive(Debug, Default)]
pub(crate) struct Devices(Mutex<HashMap<u64, Arc<Device>>>);

impl Devices {
    /// That of an open directory; none where there is no directory yet.
    pub(crate) fn of(&self, dir: Option<&OwnedFd>) -> rustix::io::Result<Arc<Device>> {
        let dev = dir.map(|fd| rustix::fs::fstat(fd).map(|stat| stat.st_dev)).transpose()?.unwrap_or(0);
        let mut devices = lock(&self.0);
        if let Some(device) = devices.get(&dev) {
            return Ok(Arc::clone(device));
        }
        let any = dir.map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 0)).transpose()?;
        let kind = any.as_ref().and_then(|fd| Kind::of(fd).ok());
        let device = Arc::new(Device { ladder: Ladder::new(), kind, any });
        devices.insert(dev, Arc::clone(&device));
        Ok(device)
    }

    /// Writes all that was made to the disks; `target` is for messages.
    pub(crate) fn sync(&self, target: &Path) -> Result<()> {
        // Nobody who asks for a device waits for one that is slow.
        let devices: Vec<_> = lock(&self.0).values().cloned().collect();
        for fd in devices.iter().filter_map(|device| device.any.as_ref()) {
            rustix::fs::syncfs(fd).map_err(|errno| Error::io("sync the target", target, errno))?;
        }
        Ok(())
    }
}

/// What a directory hands down to what is made in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ground {
    /// An access control list, flags.
    pub(crate) inherits: bool,
    /// The project id that a file made there has.
    pub(crate) project: u32,
}

impl Ground {
    /// That of an open directory.
    pub(crate) fn of(dir: &OwnedFd) -> Ground {
        let fileattr = FileAttr::of(dir);
        let flags = fileattr.flags.unwrap_or(0);
        let project = if flags & PROJECT_INHERIT != 0 { fileattr.project.unwrap_or(0) } else { 0 };
        Ground { inherits: flags != 0 || has_default_acl(dir), project }
    }
}

/// Whether a file gets something only when it is in its place: flags under which it could not be moved there, or another
/// project id than it has by its making.
pub(crate) fn is_sealed(wanted: FileAttr, made_in: u32) -> bool {
    wanted.flags.unwrap_or(0) & SEALS != 0 || wanted.project.is_some_and(|project| project != made_in)
}

fn has_default_acl(dir: &OwnedFd) -> bool {
    // One byte is never enough for one, so there is none only where the kernel says so.
    let found = rustix::fs::fgetxattr(dir, "system.posix_acl_default", &mut [0_u8; 1]);
    matches!(found, Ok(_) | Err(Errno::RANGE))
}

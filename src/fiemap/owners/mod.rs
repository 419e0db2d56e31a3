//! Who holds a file's extents: every file of the filesystem, including files that the user did not name.
//!
//! Only the filesystem knows that, and only root may ask. `btrfs` follows its back references. `xfs` uses its reverse
//! map or, if there is none, reads every inode. [`Owners`] sets up each filesystem once, however many of its files are
//! examined.

mod btrfs;
mod merge;
mod names;
mod owner;
mod subject;
mod subvolumes;
mod xfs;

pub(crate) use owner::{Held, Name, Owner, Part, Stats};
pub(crate) use subject::Subject;

use crate::error::{Error, Result};
use crate::fs::filesystem::Kind;
use crate::monitor::Monitor;
use crate::sys;
use merge::Merge;
use rustix::io::Errno;
use std::collections::HashMap;
use subject::unknown;

/// How owners are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Sync the filesystem first: data that is not yet on disk has no known owner.
    pub sync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { sync: true }
    }
}

/// The filesystems examined so far.
#[derive(Default)]
pub(crate) struct Owners {
    options: Options,
    btrfs: HashMap<[u8; 16], btrfs::Filesystem>,
    xfs: HashMap<u64, xfs::Filesystem>,
}

/// The filesystem-specific way to find the owners of a file.
enum Way {
    Btrfs([u8; 16]),
    Xfs(u64),
}

impl Owners {
    /// No filesystem is known yet.
    pub(crate) fn new(options: Options) -> Self {
        Owners { options, ..Owners::default() }
    }

    /// Prepares for a file that will be passed to [`Owners::list`]. A file that cannot be examined is reported there.
    pub(crate) fn announce(&mut self, file: Subject<'_>, monitor: &dyn Monitor) -> Result<()> {
        match self.way(file)? {
            Way::Btrfs(_) => Ok(()),
            Way::Xfs(device) => match self.xfs.get_mut(&device) {
                Some(filesystem) => filesystem.announce(file, monitor),
                None => Ok(()),
            },
        }
    }

    /// Finds the names of the owners of all announced files. They are resolved together, because on XFS that can
    /// require a walk through the whole filesystem.
    ///
    /// # Errors
    /// If the monitor asks to stop.
    pub(crate) fn resolve(&mut self, monitor: &dyn Monitor) -> Result<()> {
        self.xfs.values_mut().try_for_each(|filesystem| filesystem.resolve(monitor))
    }

    /// Passes each range of the file, with its owners, to `each`. Each range of the device is reported once.
    ///
    /// # Errors
    /// If the filesystem or the user may not know the owners, with an explanation; or if the monitor asks to stop.
    pub(crate) fn list(
        &mut self,
        file: Subject<'_>,
        each: &mut dyn FnMut(&Held),
        monitor: &dyn Monitor,
    ) -> Result<Stats> {
        let way = self.way(file)?;
        let mut merge = Merge::new(each);
        match way {
            Way::Btrfs(id) => match self.btrfs.get_mut(&id) {
                Some(filesystem) => filesystem.list(file, &mut merge, monitor)?,
                None => return Err(unknown(file.path, Errno::IO)),
            },
            Way::Xfs(device) => match self.xfs.get_mut(&device) {
                Some(filesystem) => filesystem.list(file, &mut merge, monitor)?,
                None => return Err(unknown(file.path, Errno::IO)),
            },
        }
        Ok(merge.finish())
    }

    /// The filesystem of the file. A filesystem met for the first time is set up.
    fn way(&mut self, file: Subject<'_>) -> Result<Way> {
        if let Ok(uuid) = sys::btrfs::filesystem_uuid(file.fd) {
            if !self.btrfs.contains_key(&uuid) {
                self.sync(file)?;
                self.btrfs.insert(uuid, btrfs::Filesystem::new(file)?);
            }
            return Ok(Way::Btrfs(uuid));
        }
        if sys::xfs::geometry(file.fd).is_ok() {
            let device = rustix::fs::fstat(file.fd).map_err(|errno| unknown(file.path, errno))?.st_dev;
            if !self.xfs.contains_key(&device) {
                let filesystem = xfs::Filesystem::new(file)?;
                self.sync(file)?;
                self.xfs.insert(device, filesystem);
            }
            return Ok(Way::Xfs(device));
        }
        let why = match Kind::of(file.fd).map_err(|errno| unknown(file.path, errno))? {
            Kind::Ext4 => "ext4 keeps no map from blocks to files, and its files share none".into(),
            Kind::Tmpfs => "tmpfs has no blocks on a device".into(),
            kind => format!("{kind} does not report which file a block belongs to"),
        };
        Err(unknown(file.path, Errno::OPNOTSUPP).hint(why))
    }

    fn sync(&self, file: Subject<'_>) -> Result<()> {
        if self.options.sync {
            rustix::fs::syncfs(file.fd).map_err(|errno| Error::io("sync the filesystem of", file.path, errno))?;
        }
        Ok(())
    }
}

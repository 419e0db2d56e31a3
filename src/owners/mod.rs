//! Who holds a file's extents: every file of the filesystem, also those that nobody named.
//!
//! Only the filesystem knows that, and only root may ask: `btrfs` follows its back references, `xfs` its reverse map or,
//! where there is none, every inode. [`Owners`] knows each filesystem once, whatever number of files on it are asked about.

mod btrfs;
mod merge;
mod names;
mod subvolumes;
mod xfs;

use crate::error::{Error, Result};
use crate::fs::filesystem::Kind;
use crate::monitor::Monitor;
use crate::sys;
use merge::Merge;
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// How owners are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Have the filesystem written to disk first: what is not there yet has no owner that can be told.
    pub sync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { sync: true }
    }
}

/// How a file that holds an extent is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// By this path.
    Path(PathBuf),
    /// In a subvolume that no mount shows: by this path from the top of the filesystem.
    Unmounted(PathBuf),
    /// It has no name any more, and is still open or about to go.
    Deleted,
    /// It has one, which was not found: hidden below another mount, or changed meanwhile.
    Unknown,
}

/// What of an extent an owner holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The range that was asked about, or some of it.
    This,
    /// Only other parts of the same extent, which is freed as a whole (Btrfs).
    Other,
}

/// A file that holds an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its names; never empty.
    pub names: Rc<[Name]>,
    /// Its inode.
    pub inode: u64,
    /// The subvolume of that inode, on Btrfs.
    pub subvolume: Option<u64>,
    /// Where in this file the piece lies.
    pub logical: u64,
    /// Where the piece lies on the device; of a compressed extent, where the extent begins.
    pub physical: u64,
    /// The length of the piece in the file.
    pub length: u64,
    /// What of the extent it is.
    pub part: Part,
}

/// A range of a file, and who holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Where in the file it lies.
    pub logical: u64,
    /// Where on the device; of a compressed extent, where the extent begins.
    pub physical: u64,
    /// Its length in the file.
    pub length: u64,
    /// Whether the address is that of the encoded extent, with which nothing can be computed.
    pub encoded: bool,
    /// The file itself and all others, in no particular order.
    pub owners: Vec<Owner>,
    /// How many more there are than the kernel tells.
    pub missed: u64,
}

/// What was found for one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Ranges with owners.
    pub ranges: u64,
    /// Owners of all ranges that the kernel did not tell.
    pub missed: u64,
    /// Files that hold some of the file's ranges, itself among them.
    pub holders: u64,
    /// Files that hold only other parts of the same extents.
    pub other_holders: u64,
}

/// A file to ask about.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its path, for messages.
    pub path: &'a Path,
    /// It, open for reading.
    pub fd: BorrowedFd<'a>,
}

/// What is known of the filesystems asked about so far.
#[derive(Default)]
pub struct Owners {
    options: Options,
    btrfs: HashMap<[u8; 16], btrfs::Filesystem>,
    xfs: HashMap<u64, xfs::Filesystem>,
}

/// How the filesystem of a file is asked.
enum Way {
    Btrfs([u8; 16]),
    Xfs(u64),
}

impl Owners {
    /// Nothing is known yet.
    pub fn new(options: Options) -> Self {
        Owners { options, ..Owners::default() }
    }

    /// Looks at a file whose owners will be asked for. What cannot be looked at, [`Owners::list`] will say.
    pub fn announce(&mut self, file: Subject<'_>, monitor: &dyn Monitor) -> Result<()> {
        match self.way(file)? {
            Way::Btrfs(_) => Ok(()),
            Way::Xfs(device) => match self.xfs.get_mut(&device) {
                Some(filesystem) => filesystem.announce(file, monitor),
                None => Ok(()),
            },
        }
    }

    /// Finds the names of the owners of all files that have been announced: at once, because on XFS that can mean to
    /// walk through the whole filesystem.
    ///
    /// # Errors
    /// If the monitor asks to stop.
    pub fn resolve(&mut self, monitor: &dyn Monitor) -> Result<()> {
        self.xfs.values_mut().try_for_each(|filesystem| filesystem.resolve(monitor))
    }

    /// Hands each range of the file, with its owners, to `each`. Each range of the device is told once.
    ///
    /// # Errors
    /// If the filesystem or the user may not know, in words; if the monitor asks to stop.
    pub fn list(&mut self, file: Subject<'_>, each: &mut dyn FnMut(&Held), monitor: &dyn Monitor) -> Result<Stats> {
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

    /// Which filesystem the file is on; one met for the first time is made ready.
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
            kind => format!("{kind} does not tell which file a block belongs to"),
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

/// Owners cannot be told, and why.
fn unknown(path: &Path, errno: Errno) -> Error {
    let error = Error::io("find the owners of", path, errno);
    match errno {
        Errno::PERM | Errno::ACCESS => error.hint("run as root: the kernel tells nobody else"),
        _ => error,
    }
}

/// A descriptor of our own for a filesystem.
fn anchor(file: Subject<'_>) -> Result<std::os::fd::OwnedFd> {
    file.fd.as_fd().try_clone_to_owned().map_err(|error| Error::io("keep open", file.path, error))
}

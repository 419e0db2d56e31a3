//! The device and the filesystem of a directory, and how its extents can be read.
//!
//! A device is identified by `st_dev`: on Btrfs each subvolume has its own, and inode numbers are unique only within
//! it. A volume is the filesystem, within which extents are shared.

use super::inodes::Inodes;
use super::xfs::access;
use crate::error::{Error, Result};
use crate::extents::address_space::{AddressSpace, SpaceId};
use crate::fs::filesystem::{Filesystem, Id, Kind};
use crate::sys::btrfs::{logical, tree};
use crate::util::mutex::{self, lock};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// How the extents of files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// From Btrfs's trees, in one sweep: real lengths, and who else refers to them. For root.
    Trees,
    /// From XFS's list of inodes and its reverse map. For root.
    Numbers,
    /// File by file, by FIEMAP.
    Maps,
}

/// A filesystem.
#[derive(Debug)]
pub(super) struct Volume {
    /// Its place among the volumes of this run.
    pub(super) number: usize,
    pub(super) kind: Kind,
    pub(super) id: Id,
    /// The address space of its files.
    pub(super) space: SpaceId,
    pub(super) method: Method,
    /// A directory of it, for calls that concern it as a whole.
    pub(super) fd: OwnedFd,
    /// The path of that directory, for messages.
    pub(super) path: PathBuf,
    /// Whether it was reported that it keeps no extent maps.
    pub(super) is_refused: AtomicBool,
}

impl Volume {
    /// Whether the walk only lists the numbers of inodes.
    pub(super) fn lists(&self) -> bool {
        matches!(self.method, Method::Trees | Method::Numbers)
    }

    /// Whether it is known to keep no extent maps, so that no file need be opened to find out: filesystems in memory,
    /// in the kernel, or on the network.
    pub(super) fn lacks_maps(&self) -> bool {
        const PROC: u64 = 0x9fa0;
        const SYSFS: u64 = 0x6265_6572;
        const DEBUGFS: u64 = 0x6462_6720;
        const TRACEFS: u64 = 0x7472_6163;
        const SECURITYFS: u64 = 0x7363_6673;
        const CGROUP: u64 = 0x0027_e0eb;
        const CGROUP2: u64 = 0x6367_7270;
        const PSTORE: u64 = 0x6165_676c;
        const EFIVARFS: u64 = 0xde5e_81e4;
        const BPF: u64 = 0xcafe_4a11;
        const RAMFS: u64 = 0x8584_58f6;
        const HUGETLBFS: u64 = 0x9584_58f6;
        const DEVPTS: u64 = 0x1cd1;
        match self.kind {
            Kind::Tmpfs | Kind::Nfs => true,
            Kind::Other(magic) => matches!(
                magic.number(),
                PROC | SYSFS
                    | DEBUGFS
                    | TRACEFS
                    | SECURITYFS
                    | CGROUP
                    | CGROUP2
                    | PSTORE
                    | EFIVARFS
                    | BPF
                    | RAMFS
                    | HUGETLBFS
                    | DEVPTS
            ),
            _ => false,
        }
    }
}

/// All files with the same `st_dev`.
#[derive(Debug)]
pub(super) struct Device {
    /// Its place among the devices of this run.
    pub(super) number: usize,
    pub(super) volume: Arc<Volume>,
    /// The number of the Btrfs subvolume if its trees are read; otherwise 0.
    pub(super) tree: u64,
    /// The directories with entries that count for the set.
    directories: Mutex<Inodes>,
    /// Single entries, by their directory and name, that count for the set.
    names: Mutex<HashSet<(u64, Vec<u8>)>>,
}

impl Device {
    /// Whether the directory is new for the set, and not reached again through another path or mount.
    pub(super) fn is_new_directory(&self, inode: u64) -> bool {
        lock(&self.directories).add(inode)
    }

    /// The same for a single entry of a directory that is not wanted as a whole.
    pub(super) fn is_new_name(&self, directory: u64, name: &[u8]) -> bool {
        !lock(&self.directories).contains(directory) && lock(&self.names).insert((directory, name.to_vec()))
    }
}

/// The devices of a run.
pub(super) struct Devices {
    sync: bool,
    by_numbers: bool,
    known: Mutex<Volumes>,
}

#[derive(Default)]
struct Volumes {
    by_dev: HashMap<u64, Arc<Device>>,
    volumes: Vec<Arc<Volume>>,
}

impl Devices {
    /// No devices yet. With `sync`, each filesystem is synced when it is first met. With `by_numbers`, files are
    /// examined by their numbers if possible.
    pub(super) fn new(sync: bool, by_numbers: bool) -> Self {
        Devices { sync, by_numbers, known: Mutex::default() }
    }

    /// The device `dev`, with `fd` an open directory or file on it.
    pub(super) fn of(&self, dev: u64, fd: impl AsFd, path: &Path) -> Result<Arc<Device>> {
        let mut known = lock(&self.known);
        if let Some(device) = known.by_dev.get(&dev) {
            return Ok(Arc::clone(device));
        }
        let failed = |errno: Errno| Error::io("query the filesystem of", path, errno);
        let id = Filesystem::identify(&fd).map_err(failed)?;
        let volume = match known.volumes.iter().find(|volume| volume.id == id) {
            Some(volume) => Arc::clone(volume),
            None => {
                let kind = Kind::of(&fd).map_err(failed)?;
                if self.sync {
                    // Data that is only in memory has no place yet.
                    match rustix::fs::syncfs(&fd) {
                        // A read-only filesystem has nothing to write; a path-only descriptor cannot be synced.
                        Ok(()) | Err(Errno::ROFS | Errno::BADF) => {}
                        Err(errno) => return Err(Error::io("sync the filesystem of", path, errno)),
                    }
                }
                let method = match kind {
                    Kind::Btrfs if can_read_trees(&fd) => Method::Trees,
                    Kind::Xfs if self.by_numbers && access::is_usable(&fd) => Method::Numbers,
                    _ => Method::Maps,
                };
                let volume = Arc::new(Volume {
                    number: known.volumes.len(),
                    kind,
                    id,
                    space: AddressSpace::from(id).id(),
                    method,
                    fd: fd.as_fd().try_clone_to_owned().map_err(|error| Error::io("keep open", path, error))?,
                    path: path.to_path_buf(),
                    is_refused: AtomicBool::new(false),
                });
                known.volumes.push(Arc::clone(&volume));
                volume
            }
        };
        let tree = match volume.method {
            Method::Trees => logical::subvolume_of(&fd).map_err(failed)?,
            Method::Numbers | Method::Maps => 0,
        };
        let (directories, names) = Default::default();
        let device = Arc::new(Device { number: known.by_dev.len(), volume, tree, directories, names });
        known.by_dev.insert(dev, Arc::clone(&device));
        Ok(device)
    }

    /// All volumes and devices that were met, each in the order of their numbers.
    pub(super) fn met(self) -> (Vec<Arc<Volume>>, Vec<Arc<Device>>) {
        let known = mutex::into_inner(self.known);
        let mut devices: Vec<_> = known.by_dev.into_values().collect();
        devices.sort_by_key(|device| device.number);
        (known.volumes, devices)
    }
}

/// Whether this process may read the filesystem's trees.
fn can_read_trees(fd: impl AsFd) -> bool {
    tree::search(fd, tree::EXTENT_TREE, tree::Key::default(), tree::Key::MAX, |_| tree::Step::Stop).is_ok()
}

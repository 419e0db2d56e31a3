//! The names of inodes of an XFS, found for many inodes at once.
//!
//! XFS reports an inode and no name. A name in the kernel's cache takes one call. For the other names the tree is
//! walked once, until all are found. Names are read from directories only: no file is opened for them.

use super::owner::Name;
use crate::error::{Error, Result};
use crate::fs::mounts::Mount;
use crate::monitor::Monitor;
use crate::sys::xfs;
use rustix::fs::{AtFlags, CWD, OFlags};
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use walkdir::{DirEntryExt as _, WalkDir};

/// The most inodes to find names for: some 100 MiB of memory.
const MOST: usize = 1 << 20;

/// The inodes with wanted names, and the names found.
#[derive(Default)]
pub(super) struct Names {
    inodes: BTreeMap<u64, Found>,
    all: BTreeMap<u64, Rc<[Name]>>,
}

#[derive(Default)]
struct Found {
    /// The number of names to find.
    wanted: usize,
    paths: Vec<PathBuf>,
}

impl Names {
    /// Requests the names of an inode.
    pub(super) fn want(&mut self, inode: u64) {
        if self.inodes.len() < MOST && !self.all.contains_key(&inode) {
            self.inodes.entry(inode).or_default();
        }
    }

    /// The names of a requested inode.
    pub(super) fn of(&self, inode: u64) -> Rc<[Name]> {
        self.all.get(&inode).cloned().unwrap_or_else(|| [Name::Unknown].into())
    }

    /// Finds the names of all requested inodes.
    pub(super) fn resolve(&mut self, fd: BorrowedFd<'_>, mounts: &[Mount], monitor: &dyn Monitor) -> Result<()> {
        let device = rustix::fs::fstat(fd)
            .map_err(|errno| Error::failed("read the status of a filesystem").because(errno))?
            .st_dev;
        let mut left = 0;
        for (number, found) in &mut self.inodes {
            if monitor.is_cancelled() {
                return Err(Error::interrupted());
            }
            let Ok(Some(inode)) = xfs::inode(fd, *number) else { continue };
            found.wanted = inode.names as usize;
            if inode.names == 1 {
                found.paths.extend(cached_path(fd, &inode, device));
            }
            left += found.wanted - found.paths.len();
        }
        if left > 0 {
            self.walk(device, mounts, left, monitor)?;
        }
        for (number, found) in std::mem::take(&mut self.inodes) {
            let mut names: Vec<_> = found.paths.into_iter().map(Name::Path).collect();
            match found.wanted {
                0 => names.push(Name::Deleted),
                wanted if names.len() < wanted => names.push(Name::Unknown),
                _ => {}
            }
            self.all.insert(number, names.into());
        }
        Ok(())
    }

    /// Walks the filesystem until all names are found.
    fn walk(&mut self, device: u64, mounts: &[Mount], mut left: usize, monitor: &dyn Monitor) -> Result<()> {
        // The mount that shows the largest part.
        let shows = |mount: &&Mount| fs::metadata(&mount.point).is_ok_and(|meta| meta.dev() == device);
        let Some(mount) = mounts.iter().filter(shows).min_by_key(|mount| mount.root.as_os_str().len()) else {
            return Ok(());
        };
        monitor.phase("looking for names", None);
        let walk = WalkDir::new(&mount.point).same_file_system(true);
        // If a directory cannot be listed, its names stay unknown, and the inode is shown without a name.
        for entry in walk {
            if monitor.is_cancelled() {
                return Err(Error::interrupted());
            }
            let Ok(entry) = entry else { continue };
            let Some(found) = self.inodes.get_mut(&entry.ino()) else { continue };
            if found.paths.len() < found.wanted && is(entry.path(), entry.ino(), device) {
                if !found.paths.iter().any(|path| path == entry.path()) {
                    found.paths.push(entry.into_path());
                    left -= 1;
                }
                if left == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The path by which the kernel knows the inode at this moment, if any.
fn cached_path(fd: BorrowedFd<'_>, inode: &xfs::Inode, device: u64) -> Option<PathBuf> {
    let opened = xfs::open_inode(fd, inode.number, inode.generation, OFlags::PATH).ok()?;
    let path = fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).ok()?;
    is(&path, inode.number, device).then_some(path)
}

/// Whether the path leads to exactly this inode, and not to something mounted or moved there meanwhile.
fn is(path: &Path, inode: u64, device: u64) -> bool {
    rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| (stat.st_ino, stat.st_dev) == (inode, device))
}

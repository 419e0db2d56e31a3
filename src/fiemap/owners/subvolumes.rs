//! The subvolumes of a Btrfs and the names of the inodes in them.
//!
//! Subvolumes are opened by their number, which works even if no mount shows them. A path is reported as a path only if
//! it leads to exactly this inode; otherwise the reported path starts at the top of the filesystem.

use super::owner::Name;
use crate::fs::mounts::{self, Mount};
use crate::sys::btrfs::inode::names;
use crate::sys::btrfs::logical::{self, ROOT_DIRECTORY, TOP_LEVEL};
use rustix::fs::{AtFlags, CWD, OFlags};
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The number of inodes with cached names.
const REMEMBERED: usize = 1 << 16;
/// Subvolumes can be nested. A greater depth means a circle caused by changes during the search.
const DEEPEST: usize = 1000;

pub(super) struct Subvolumes {
    mounts: Vec<Mount>,
    known: HashMap<u64, Option<Rc<Subvolume>>>,
    open: Option<(u64, OwnedFd)>,
    names: HashMap<(u64, u64), Rc<[Name]>>,
}

struct Subvolume {
    /// From the top of the filesystem.
    path: PathBuf,
    device: u64,
}

impl Subvolumes {
    pub(super) fn new(file: BorrowedFd<'_>) -> Self {
        // Without /proc, every path starts at the top.
        let mounts = mounts::of(file).unwrap_or_default();
        Subvolumes { mounts, known: HashMap::new(), open: None, names: HashMap::new() }
    }

    /// All names of an inode. If there are none, one [`Name`] that says why.
    pub(super) fn names(&mut self, anchor: &OwnedFd, root: u64, inode: u64) -> Rc<[Name]> {
        if let Some(names) = self.names.get(&(root, inode)) {
            return names.clone();
        }
        let names: Rc<[Name]> = match self.find(anchor, root, inode) {
            Ok(names) if names.is_empty() => [Name::Deleted].into(),
            Ok(names) => names.into(),
            // The subvolume is being deleted.
            Err(Errno::STALE | Errno::NOENT) => [Name::Deleted].into(),
            Err(_) => [Name::Unknown].into(),
        };
        if self.names.len() >= REMEMBERED {
            self.names.clear();
        }
        self.names.insert((root, inode), names.clone());
        names
    }

    fn find(&mut self, anchor: &OwnedFd, root: u64, inode: u64) -> Result<Vec<Name>> {
        let subvolume = self.subvolume(anchor, root)?;
        let fd = match self.open.take() {
            Some((open, fd)) if open == root => fd,
            _ => open(anchor, root)?,
        };
        let found = logical::paths(&fd, inode);
        self.open = Some((root, fd));
        let found = found?;
        let paths = if found.missed == 0 { found.found } else { all_paths(anchor, root, inode)? };
        Ok(paths.iter().map(|path| self.name(&subvolume, Path::new(OsStr::from_bytes(path)), inode)).collect())
    }

    /// The path below a mount that shows it, if nothing hides it there.
    fn name(&self, subvolume: &Subvolume, path: &Path, inode: u64) -> Name {
        let from_top = subvolume.path.join(path);
        let leads_there = |path: &PathBuf| {
            rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| (stat.st_ino, stat.st_dev) == (inode, subvolume.device))
        };
        match self.mounts.iter().filter_map(|mount| mount.place(&from_top)).find(leads_there) {
            Some(path) => Name::Path(path),
            None => Name::Unmounted(from_top),
        }
    }

    fn subvolume(&mut self, anchor: &OwnedFd, id: u64) -> Result<Rc<Subvolume>> {
        if let Some(known) = self.known.get(&id) {
            return known.clone().ok_or(Errno::STALE);
        }
        let subvolume = describe(anchor, id);
        // A failure is cached too: the number of a deleted subvolume is never reused.
        self.known.insert(id, subvolume.as_ref().ok().cloned());
        subvolume
    }
}

fn open(anchor: &OwnedFd, id: u64) -> Result<OwnedFd> {
    logical::open_inode(anchor, id, ROOT_DIRECTORY, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Follows the parents of a subvolume up to the top.
fn describe(anchor: &OwnedFd, id: u64) -> Result<Rc<Subvolume>> {
    let fd = open(anchor, id)?;
    let device = rustix::fs::fstat(&fd)?.st_dev;
    let mut parts = Vec::new();
    let mut here = logical::subvolume(&fd)?;
    while here.id != TOP_LEVEL {
        if here.parent == 0 || parts.len() > DEEPEST {
            return Err(Errno::STALE);
        }
        let directory = logical::directory_path(anchor, here.parent, here.directory)?;
        parts.push([&directory[..], &here.name[..]].concat());
        here = logical::subvolume(open(anchor, here.parent)?)?;
    }
    let mut path = PathBuf::from("/");
    path.extend(parts.iter().rev().map(|part| Path::new(OsStr::from_bytes(part))));
    Ok(Rc::new(Subvolume { path, device }))
}

/// All names of an inode, however many, from its items in the subvolume's tree.
fn all_paths(anchor: &OwnedFd, root: u64, inode: u64) -> Result<Vec<Vec<u8>>> {
    let names = names(anchor, root, inode)?;
    let mut directories = HashMap::new();
    let mut paths = Vec::with_capacity(names.len());
    for (directory, name) in names {
        let before = match directories.entry(directory) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => {
                new.insert(logical::directory_path(anchor, root, directory)?)
            }
        };
        paths.push([&before[..], &name[..]].concat());
    }
    Ok(paths)
}

//! The subvolumes of a Btrfs and the names of the inodes in them.
//!
//! Subvolumes are opened by their number, which works even if no mount shows them. A path is reported as a path only if
//! it leads to exactly this inode; otherwise the reported path starts at the top of the filesystem.

use super::owner::Name;
use crate::fs::mounts::{self, Mount};
use crate::sys::btrfs::logical::{self, ROOT_DIRECTORY, TOP_LEVEL};
use crate::sys::btrfs::tree::{self, INODE_EXTREF, INODE_REF, Key, Step};
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
    let mut names: Vec<(u64, Vec<u8>)> = Vec::new();
    let (first, last) = (Key::new(inode, INODE_REF, 0), Key::new(inode, INODE_EXTREF, u64::MAX));
    tree::search(anchor, root, first, last, |item| {
        // Each name follows its directory (EXTREF), its index, and its own length.
        let mut rest = item.data;
        while let Some((directory, name, behind)) = next_name(item.key, rest) {
            names.push((directory, name.to_vec()));
            rest = behind;
        }
        Step::Next
    })?;
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

/// The next name of an item: its directory, the name, and the remaining data.
fn next_name(key: Key, data: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (directory, rest) = match key.kind {
        INODE_REF => (key.offset, data),
        INODE_EXTREF => (u64::from_le_bytes(*data.first_chunk()?), &data[8..]),
        _ => return None,
    };
    let length = u16::from_le_bytes(*rest.get(8..)?.first_chunk()?);
    let (name, behind) = rest.get(10..)?.split_at_checked(length.into())?;
    Some((directory, name, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_both_kinds_of_items() {
        let named = |name: &[u8]| [&7u64.to_le_bytes()[..], &(name.len() as u16).to_le_bytes(), name].concat();
        let two = [named(b"a"), named(b"bc")].concat();
        let key = Key::new(300, INODE_REF, 256);
        let (directory, name, rest) = next_name(key, &two).unwrap();
        assert_eq!((directory, name), (256, &b"a"[..]));
        assert_eq!(next_name(key, rest), Some((256, &b"bc"[..], &b""[..])));
        let extended = [&999u64.to_le_bytes()[..], &named(b"d")].concat();
        assert_eq!(next_name(Key::new(300, INODE_EXTREF, 1), &extended), Some((999, &b"d"[..], &b""[..])));
        assert_eq!(next_name(key, &two[..10]), None, "a name that does not fit its item");
        assert_eq!(next_name(key, b""), None);
    }
}

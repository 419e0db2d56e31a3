//! The inodes of a Btrfs subvolume that changed since a transaction, and the names that lead to them, from the
//! subvolume's tree. Only for root. The cost depends on the changes, not on the size of the tree.
//!
//! Every change of an inode is noted in its item with the number of its transaction: content, size, metadata, extended
//! attributes, names, and for a directory its entries. An access time too, so a changed inode may look as before.

use crate::sys::btrfs::inode::{self, Inode};
use crate::sys::btrfs::logical::ROOT_DIRECTORY;
use crate::sys::btrfs::tree::{self, DIR_INDEX, INODE_ITEM, Key, Step};
use rustix::fs::FileType;
use rustix::io::{Errno, Result};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd};

/// The largest number that an inode can have: `BTRFS_LAST_FREE_OBJECTID`.
const LAST_INODE: u64 = 0_u64.wrapping_sub(256);

/// Inodes that changed, and the way to them. Memory: about 200 bytes for each of them.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// For each directory, the names in it that lead to changed inodes.
    names: HashMap<u64, BTreeSet<Vec<u8>>>,
    /// The changed inodes.
    inodes: HashSet<u64>,
    /// The directories among them that existed before.
    directories: Vec<u64>,
    /// The directory and the name of each changed inode and of each directory on the way to one.
    parents: HashMap<u64, (u64, Vec<u8>)>,
}

/// Finds the inodes of the subvolume `root` that changed after the transaction `since`. `fd` is any file of the
/// filesystem. `None` if there are more than `most`.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`.
pub(crate) fn since(fd: impl AsFd, (root, since): (u64, u64), most: usize) -> Result<Option<Changed>> {
    let (mut changed, mut named) = (Changed::default(), Vec::new());
    let mut is_too_many = false;
    each_inode(fd.as_fd(), (root, since), |number, inode| {
        changed.inodes.insert(number);
        if number != ROOT_DIRECTORY {
            named.push(number);
        }
        if inode.created <= since && FileType::from_raw_mode(inode.mode) == FileType::Directory {
            changed.directories.push(number);
        }
        is_too_many = changed.inodes.len() > most;
        !is_too_many
    })?;
    if is_too_many {
        return Ok(None);
    }
    named.into_iter().try_for_each(|number| changed.lead_to(fd.as_fd(), root, number))?;
    Ok(Some(changed))
}

impl Changed {
    /// The names in a directory that lead to changed inodes.
    pub(crate) fn names(&self, directory: u64) -> Option<&BTreeSet<Vec<u8>>> {
        self.names.get(&directory)
    }

    /// Whether this inode changed.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.inodes.contains(&number)
    }

    /// How many inodes changed.
    pub(crate) fn len(&self) -> usize {
        self.inodes.len()
    }

    /// The changed directories that existed before, and may have been renamed.
    pub(crate) fn directories(&self) -> &[u64] {
        &self.directories
    }

    /// The path of a changed directory from the directory `top`. `None` if it does not lie below `top`.
    ///
    /// # Errors
    /// `LOOP` if the names lead in a circle: directories were moved into each other while their names were read.
    pub(crate) fn path(&self, top: u64, directory: u64) -> Result<Option<Vec<u8>>> {
        let (mut names, mut here) = (Vec::new(), directory);
        while here != top {
            if names.len() > self.parents.len() {
                return Err(Errno::LOOP);
            }
            let Some((parent, name)) = self.parents.get(&here) else { return Ok(None) };
            names.push(&name[..]);
            here = *parent;
        }
        names.reverse();
        Ok(Some(names.join(&b'/')))
    }

    /// Adds all names of the inodes with several names in and below a directory. Renaming a directory changes the paths
    /// of its files, but not their inodes.
    ///
    /// # Errors
    /// Like [`since`].
    pub(crate) fn add_links_below(&mut self, fd: impl AsFd, root: u64, directory: u64) -> Result<()> {
        let mut waiting = vec![directory];
        let mut done = HashSet::new();
        while let Some(directory) = waiting.pop() {
            if !done.insert(directory) {
                continue;
            }
            let mut entries = Vec::new();
            let (first, last) = (Key::new(directory, DIR_INDEX, 0), Key::new(directory, DIR_INDEX, u64::MAX));
            tree::search(&fd, root, first, last, |item| {
                entries.extend(inode::entry(&item));
                Step::Next
            })?;
            for number in entries {
                match status(fd.as_fd(), root, number)? {
                    Some(inode) if FileType::from_raw_mode(inode.mode) == FileType::Directory => waiting.push(number),
                    Some(inode) if inode.nlink > 1 => self.lead_to(fd.as_fd(), root, number)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Adds all names of an inode, and those of the directories above them.
    fn lead_to(&mut self, fd: BorrowedFd<'_>, root: u64, number: u64) -> Result<()> {
        let mut waiting = vec![number];
        while let Some(number) = waiting.pop() {
            for (directory, name) in inode::names(fd, root, number)? {
                self.names.entry(directory).or_default().insert(name.clone());
                self.parents.insert(number, (directory, name));
                if directory != ROOT_DIRECTORY && !self.parents.contains_key(&directory) {
                    waiting.push(directory);
                }
            }
        }
        Ok(())
    }
}

/// Passes each inode that changed after `since` to `each`, until that returns `false`.
fn each_inode(fd: BorrowedFd<'_>, (root, since): (u64, u64), mut each: impl FnMut(u64, Inode) -> bool) -> Result<()> {
    let (first, last) = (Key::new(ROOT_DIRECTORY, INODE_ITEM, 0), Key::new(LAST_INODE, INODE_ITEM, 0));
    tree::search_since(fd, (root, since.saturating_add(1)), first, last, |item| {
        if item.key.kind == INODE_ITEM
            && let Some(inode) = Inode::of(&item)
            && inode.changed > since
            && !each(item.key.objectid, inode)
        {
            return Step::Stop;
        }
        Step::Next
    })
}

fn status(fd: BorrowedFd<'_>, root: u64, number: u64) -> Result<Option<Inode>> {
    let mut found = None;
    let key = Key::new(number, INODE_ITEM, 0);
    tree::search(fd, root, key, key, |item| {
        found = Inode::of(&item);
        Step::Stop
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_inodes_are_known_by_number_and_directories_by_path() {
        let parents = [(300, (301, b"a".to_vec())), (301, (256, b"b".to_vec()))];
        let changed = Changed {
            names: [(301, [b"a".to_vec()].into())].into(),
            inodes: [300, 302, 303].into(),
            directories: vec![300, 302],
            parents: parents.into(),
        };
        assert_eq!((changed.has(300), changed.has(301), changed.len()), (true, false, 3));
        assert_eq!(changed.directories(), [300, 302]);
        assert_eq!(changed.names(301), Some(&[b"a".to_vec()].into()));
        assert_eq!(changed.names(256), None);
        assert_eq!(changed.path(999, 300), Ok(None), "it lies elsewhere");
        let paths = [(256, 300), (301, 300), (300, 300)].map(|(top, directory)| changed.path(top, directory).unwrap());
        assert_eq!(paths, [&b"b/a"[..], b"a", b""].map(|path| Some(path.to_vec())));
    }

    #[test]
    fn names_that_lead_in_a_circle_are_an_error() {
        let parents = [(300, (301, b"A".to_vec())), (301, (300, b"B".to_vec())), (302, (256, b"c".to_vec()))];
        let changed = Changed { parents: parents.into(), ..Changed::default() };
        assert_eq!(changed.path(256, 300), Err(Errno::LOOP));
        assert_eq!(changed.path(256, 302), Ok(Some(b"c".to_vec())));
        assert_eq!(changed.path(256, 303), Ok(None));
    }
}

//! Hard links: the names of one inode in the source become names of one inode in the snapshot.
//!
//! The first name that is added is also linked into a directory of the staging area, under the inode's number. Further
//! names are linked from there: the kernel decides which name was first, and no path has to be kept. Hard links cannot
//! leave a Btrfs subvolume. If the tree is a subvolume, the path of the first name is kept, and further names are
//! linked from that path. The map also keeps the data that the records of further names need, until the last name has
//! been added; `inode_map` bounds its memory. `hard_link` adds the entries.

use crate::fs::openat;
use crate::fs::rename;
use crate::fs::spill::Spill;
use crate::snapshot::manifest::Entry;
use crate::tree::inode_map::{Identity, InodeMap};
use crate::util::mutex::lock;
use rustix::fs::AtFlags;
use rustix::io::{Errno, Result};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

/// The inodes with several names.
pub(super) struct LinkMap {
    shelf: Shelf,
    known: Mutex<InodeMap<Link>>,
}

/// Where further names are linked from.
enum Shelf {
    /// A directory that has a name of each inode.
    Directory(OwnedFd),
    /// The tree itself.
    Tree(OwnedFd),
}

#[derive(Serialize, Deserialize)]
struct Link {
    /// The record of the first name.
    entry: Entry,
    /// The directory of the first name, if further names are linked from there.
    directory: Vec<u8>,
    /// Whether the tree had the first name when it began.
    inherited: bool,
    /// How many names have not been added yet.
    missing: u64,
    /// Whether it has as many names as the filesystem allows.
    is_full: bool,
}

/// The state of an inode before [`LinkMap::inherit`] notes one of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inherited {
    /// No name was known.
    First,
    /// The tree has had another name of it from its beginning.
    Again,
    /// Another name of it was added, so that the tree has two inodes for it.
    Apart,
}

impl LinkMap {
    /// Keeps the inodes in the directory `dir`. It is on the snapshot's filesystem and otherwise empty.
    pub(super) fn in_directory(dir: OwnedFd, spill: Spill) -> Self {
        LinkMap { shelf: Shelf::Directory(dir), known: Mutex::new(InodeMap::new(spill)) }
    }

    /// Keeps the paths of the inodes in the tree with this root.
    pub(super) fn in_tree(tree: OwnedFd, spill: Spill) -> Self {
        LinkMap { shelf: Shelf::Tree(tree), known: Mutex::new(InodeMap::new(spill)) }
    }

    /// Makes `name` in `dir` a further name of an inode of the source, and returns its record, if the inode was added.
    pub(super) fn join(&self, inode: &Identity, dir: impl AsFd, name: &[u8]) -> Result<Option<Entry>> {
        let mut known = lock(&self.known);
        let Some(mut link) = known.get(inode)? else { return Ok(None) };
        let linked = match &self.shelf {
            // The last name takes the shelf's own name, so that an inode can have as many names as the filesystem
            // allows.
            Shelf::Directory(shelf) if link.missing <= 1 => {
                rename::without_replacing(shelf, key(inode).as_str(), dir, name)
            }
            Shelf::Directory(shelf) => rustix::fs::linkat(shelf, key(inode).as_str(), dir, name, AtFlags::empty()),
            Shelf::Tree(tree) => openat::open_dir(tree.as_fd(), &link.directory)
                .and_then(|first| rustix::fs::linkat(first, &link.entry.name, dir, name, AtFlags::empty())),
        };
        match linked {
            Ok(()) => {}
            // The inode has as many names as the filesystem allows. This name becomes another inode, which further
            // names join.
            Err(Errno::MLINK) => {
                link.is_full = true;
                known.insert(inode, &link)?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        link.missing = link.missing.saturating_sub(1);
        link.settle(inode, &mut known)?;
        Ok(Some(Entry { name: name.to_vec(), ..link.entry }))
    }

    /// Offers the file just made to the names that will follow. The file has its record's name and lies in `dir`, the
    /// staging tree's directory at `path`. `false` if another thread was first.
    pub(super) fn offer(&self, inode: &Identity, dir: BorrowedFd<'_>, path: &[u8], entry: &Entry) -> Result<bool> {
        let mut known = lock(&self.known);
        let missing = match known.get(inode)? {
            Some(link) if !link.is_full => return Ok(false),
            Some(full) => full.missing.saturating_sub(1),
            None => entry.meta.nlink.saturating_sub(1),
        };
        if let Shelf::Directory(shelf) = &self.shelf
            && known.remove(inode)?.is_some()
        {
            rustix::fs::unlinkat(shelf, key(inode).as_str(), AtFlags::empty())?;
        }
        let (put, directory) = match &self.shelf {
            Shelf::Directory(shelf) => {
                let put = rustix::fs::linkat(dir, &entry.name, shelf, key(inode).as_str(), AtFlags::empty());
                (put, Vec::new())
            }
            // It may be a node that only the manifest has.
            Shelf::Tree(_) => {
                let there = rustix::fs::statat(dir, &entry.name, AtFlags::SYMLINK_NOFOLLOW).map(|_| ());
                (there, path.to_vec())
            }
        };
        match put {
            Ok(()) => {
                known.insert(inode, &Link { missing, ..Link::new(entry, directory, false) })?;
                Ok(true)
            }
            // All its names were added already, it can have no more, or only the manifest has it: it remains alone.
            Err(Errno::EXIST | Errno::MLINK | Errno::NOENT) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Notes a name of a source inode. The tree has had this name from its beginning, in its directory at `path`.
    pub(super) fn inherit(&self, inode: &Identity, path: &[u8], entry: &Entry) -> Result<Inherited> {
        let mut known = lock(&self.known);
        let Some(mut link) = known.get(inode)? else {
            known.insert(inode, &Link::new(entry, path.to_vec(), true))?;
            return Ok(Inherited::First);
        };
        if !link.inherited {
            return Ok(Inherited::Apart);
        }
        link.missing = link.missing.saturating_sub(1);
        link.settle(inode, &mut known)?;
        Ok(Inherited::Again)
    }
}

impl Link {
    fn new(entry: &Entry, directory: Vec<u8>, inherited: bool) -> Link {
        Link { entry: entry.clone(), directory, inherited, missing: entry.meta.nlink.saturating_sub(1), is_full: false }
    }

    /// Remembers the inode until its last name has been added.
    fn settle(&self, inode: &Identity, known: &mut InodeMap<Link>) -> Result<()> {
        match self.missing {
            0 => known.remove(inode).map(|_| ()),
            _ => known.insert(inode, self),
        }
    }
}

fn key(inode: &Identity) -> String {
    let Identity { dev, ino, since } = inode;
    format!("{dev:x}-{ino:x}-{:x}-{:x}", since.seconds, since.nanos)
}

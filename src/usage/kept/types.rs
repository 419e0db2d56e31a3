//! What a map says: ranges, inodes, and the tree that it describes.

use crate::extents::intervals::{Holder, Interval, Merge};
use crate::fs::filesystem::Kind;
use crate::fs::status::Status;
use crate::sys::btrfs::logical;
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

/// A run of inode numbers.
pub(super) type Run = std::ops::Range<u64>;

/// A range of the disk in a map. On Btrfs it is a whole extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) length: u32,
    /// The number of references from files of the tree.
    pub(super) count: u32,
    /// One of these files.
    pub(super) inode: u64,
}

/// The tree of a map, as it was when the map was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Identity {
    /// A directory of an XFS.
    Xfs {
        /// Its inode.
        root: u64,
        /// The ctime of that inode.
        changed: (i64, u32),
        /// A digest of everything that the list of inodes shows of the inodes of the tree.
        digest: [u8; 32],
        /// Blocks that these inodes take beside the content of files.
        own: u64,
    },
    /// A read-only subvolume of a Btrfs.
    Btrfs {
        /// Its number, and its UUID.
        tree: u64,
        uuid: [u8; 16],
        /// The last transaction that changed one of its inodes.
        changed: u64,
    },
}

impl Identity {
    /// Whether the tree with the root `fd` can still be the tree of this map, as far as it shows without a look at its
    /// files.
    pub(crate) fn is_plausible(&self, fd: impl AsFd) -> bool {
        match self {
            Identity::Xfs { root, changed, .. } => {
                let is_xfs = Kind::of(&fd).is_ok_and(|kind| kind == Kind::Xfs);
                is_xfs && Status::of(&fd).is_ok_and(|found| found.ino == *root && ctime(&found) == *changed)
            }
            identity => subvolume(fd).is_some_and(|found| found == *identity),
        }
    }
}

/// The ctime of an inode, as a map has it.
pub(super) fn ctime(status: &Status) -> (i64, u32) {
    (status.ctime.seconds, status.ctime.nanos)
}

/// The read-only subvolume with this root.
pub(super) fn subvolume(fd: impl AsFd) -> Option<Identity> {
    let is_root = Status::of(&fd).is_ok_and(|status| status.ino == logical::ROOT_DIRECTORY);
    let found = is_root.then(|| logical::subvolume(fd).ok()).flatten().filter(|found| found.read_only)?;
    Some(Identity::Btrfs { tree: found.id, uuid: found.uuid, changed: found.changed })
}

/// The references of a tree to a range, while its map is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct References {
    pub(super) count: u32,
    pub(super) inode: u64,
}

impl Holder for References {
    type Length = u32;
    type Order = (u64, u32);

    fn order(&self, start: u64, length: u32) -> (u64, u32) {
        (start, length)
    }
}

impl Merge for References {
    fn merge(&mut self, other: &References) {
        self.count = self.count.saturating_add(other.count);
        self.inode = self.inode.min(other.inode);
    }
}

/// The most memory that a distinct range takes while a map is made.
pub(super) const BYTES_A_RANGE: usize = size_of::<Interval<References>>() * 3 / 2;
const _: () = assert!(BYTES_A_RANGE <= 48);

/// A tree to map.
#[derive(Debug)]
pub(crate) struct Tree<'a> {
    /// The path of its root, and the root itself.
    pub(crate) path: PathBuf,
    pub(crate) fd: BorrowedFd<'a>,
    /// About how many files it has.
    pub(crate) files: u64,
}

//! Maps of trees that do not change any more, such as snapshots: which ranges of the disk the files of a tree hold, and
//! how often. A map is made once and kept in a file. The maps of several trees then show, in one pass over sorted
//! streams, what each tree holds alone, and what a set of them does.
//!
//! A map cannot show whether anything else holds a range now. So `xfs` and `btrfs` check what the maps show before it
//! counts: on Btrfs against the extent tree, on XFS against the inodes and, for each range that counts, against the
//! extent map of a file that holds it. If a check fails, the map is stale.
//!
//! | file | contains |
//! |---|---|
//! | `file` | the file of a map |
//! | `merge` | one pass over several maps |
//! | `names` | the inodes of a tree |
//! | `xfs`, `btrfs` | making maps, and figures from maps |
//!
//! Where maps are kept is for the caller to decide.

mod btrfs;
mod file;
mod merge;
mod names;
#[cfg(test)]
mod tests;
mod xfs;

pub(crate) use file::{Header, Reader};

use super::Freed;
use super::inodes::Inodes;
use crate::error::{Error, Result};
use crate::extents::intervals::{Holder, Interval, Merge, Merged};
use crate::fs::filesystem::Kind;
use crate::fs::status::Status;
use crate::monitor::Monitor;
use crate::sys::btrfs::logical;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// A run of inode numbers.
type Run = std::ops::Range<u64>;

/// A range of the disk in a map. On Btrfs it is a whole extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    start: u64,
    length: u32,
    /// The number of references from files of the tree.
    count: u32,
    /// One of these files.
    inode: u64,
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
    /// Whether the tree at `path`, open as `fd`, can still be the tree of this map, as far as it shows without a look at
    /// its files.
    pub(crate) fn is_plausible(&self, fd: impl AsFd) -> bool {
        match self {
            Identity::Xfs { root, changed, .. } => {
                let is_xfs = Kind::of(&fd).is_ok_and(|kind| kind == Kind::Xfs);
                is_xfs && Status::of(&fd).is_ok_and(|found| found.ino == *root && ctime(&found) == *changed)
            }
            identity => btrfs::identity(fd).is_some_and(|found| found == *identity),
        }
    }
}

fn ctime(status: &Status) -> (i64, u32) {
    (status.ctime.seconds, status.ctime.nanos)
}

/// A map that was just made.
pub(crate) struct Made {
    identity: Identity,
    inodes: Inodes,
    ranges: Merged<References>,
}

impl Made {
    /// Writes the map of the tree called `name`. The caller syncs the file.
    ///
    /// # Errors
    /// Those of `out`.
    pub(crate) fn write(&mut self, name: &str, out: &mut impl Write) -> std::io::Result<()> {
        let sorted = self.ranges.sorted();
        let header = Header {
            name: name.to_string(),
            identity: self.identity.clone(),
            runs: self.inodes.runs().count() as u64,
            ranges: sorted.len() as u64,
        };
        let ranges = sorted.iter().map(|range| Range {
            start: range.start(),
            // It was stored in 32 bits.
            length: range.length() as u32,
            count: range.by.count,
            inode: range.by.inode,
        });
        file::write(out, &header, self.inodes.runs(), ranges)
    }
}

/// The references of a tree to a range, while its map is made.
#[derive(Clone, Copy, Debug)]
struct References {
    count: u32,
    inode: u64,
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
const BYTES_A_RANGE: usize = size_of::<Interval<References>>() * 3 / 2;
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

/// Makes the maps of trees on one filesystem. Passes each map that could be made to `each`, with the number of its tree.
/// There is none for a tree whose files have names elsewhere. Returns the number of files that were mapped.
///
/// Memory: 48 bytes for each distinct range of the trees that are mapped together, at most about a million files or one
/// tree.
///
/// # Errors
/// If the run is cancelled, or the filesystem reports an error.
pub(crate) fn make(
    trees: &[Tree<'_>],
    threads: usize,
    monitor: &dyn Monitor,
    each: &mut dyn FnMut(usize, Made),
) -> Result<u64> {
    let Some(first) = trees.first() else { return Ok(0) };
    match Kind::of(first.fd) {
        Ok(Kind::Xfs) => xfs::make(trees, threads, monitor, each),
        Ok(Kind::Btrfs) => btrfs::make(trees, monitor, each).map(|()| 0),
        _ => Ok(0),
    }
}

/// The figures from maps.
#[derive(Debug)]
pub(crate) enum Figures {
    /// What deleting each tree alone frees (only those of the set mean anything), and what deleting the set frees.
    Known { rows: Vec<Freed>, set: Freed, mapped: u64 },
    /// These maps, by their numbers, no longer fit.
    Stale(Vec<usize>),
}

/// The trees of maps.
pub(crate) struct Subjects<'a> {
    /// A directory of the filesystem, and its path for messages.
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) path: &'a Path,
    /// The maps of all trees that have one.
    pub(crate) maps: Vec<Reader>,
    /// For each map: whether its tree belongs to the set.
    pub(crate) set: Vec<bool>,
    /// For each map: files and directories outside the tree that are deleted with it, without anything below them.
    pub(crate) beside: Vec<Vec<PathBuf>>,
    /// Whether figures for each tree are needed as well.
    pub(crate) each: bool,
}

/// What deleting each tree of the set alone would free, and the set.
///
/// Memory: 48 bytes for each range that only one tree or only the set holds.
///
/// # Errors
/// If the run is cancelled, the filesystem reports an error, or this process may not ask it.
pub(crate) fn figures(subjects: Subjects<'_>, threads: usize, monitor: &dyn Monitor) -> Result<Figures> {
    match Kind::of(subjects.fd) {
        Ok(Kind::Xfs) => xfs::figures(subjects, threads, monitor),
        Ok(Kind::Btrfs) => btrfs::figures(subjects, monitor),
        _ => Err(Error::failed("use the maps of trees on the filesystem of").at(subjects.path)),
    }
}

/// The bytes that each of these trees holds and no other of them, by their maps alone. `None` if a map is damaged.
pub(crate) fn alone(maps: &mut [Reader]) -> Option<Vec<u64>> {
    let mut bytes = vec![0; maps.len()];
    let set = vec![true; maps.len()];
    for (map, bytes) in maps.iter().zip(&mut bytes) {
        if let Identity::Xfs { own, .. } = map.header().identity {
            *bytes += own;
        }
    }
    let each = |piece: merge::Piece| {
        if piece.is_alone {
            bytes[piece.map as usize] += piece.end - piece.start;
        }
    };
    merge::merge(maps, &set, each).ok().map(|()| bytes)
}

/// The number of the subvolume with this root.
fn subvolume(fd: impl AsFd) -> Option<logical::Subvolume> {
    let is_root = Status::of(&fd).is_ok_and(|status| status.ino == logical::ROOT_DIRECTORY);
    is_root.then(|| logical::subvolume(fd).ok()).flatten()
}

//! Requests and results: maps that were just made, and figures from maps.

use super::file::{self, Header, Reader};
use super::types::{Identity, Range, References};
use crate::extents::intervals::Merged;
use crate::usage::inodes::Inodes;
use crate::usage::{Freed, Link};
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

/// A map that was just made.
pub(crate) struct Made {
    pub(super) identity: Identity,
    pub(super) inodes: Inodes,
    pub(super) ranges: Merged<References>,
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
    /// For each map: the path of its tree.
    pub(crate) roots: Vec<PathBuf>,
    /// For each map: files and directories outside the tree that are deleted with it, without anything below them.
    pub(crate) beside: Vec<Vec<PathBuf>>,
    /// The link that leads to a tree of the set.
    pub(crate) link: Option<LinkToTree>,
    /// Whether figures for each tree are needed as well.
    pub(crate) each: bool,
}

/// A symbolic link that is deleted with the tree that it leads to.
pub(crate) struct LinkToTree {
    /// The number of the tree.
    pub(crate) tree: usize,
    /// How it is deleted if only this tree is.
    pub(crate) alone: Link,
    /// How it is deleted if the set is.
    pub(crate) with_set: Link,
}

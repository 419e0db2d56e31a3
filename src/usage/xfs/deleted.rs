//! The space that XFS frees besides the data of files: chunks of inodes, and blocks of directories that stay.

use super::chunks::{self, MadeBefore};
use super::directories;
use super::free_space::FreeSpace;
use crate::extents::bound::Bound;
use crate::usage::device::Volume;
use crate::usage::freed::{Freed, Link};
use crate::usage::inodes::Inodes;
use std::collections::HashSet;
use std::os::fd::AsFd;
use std::path::PathBuf;

/// A set that is deleted.
pub(in crate::usage) struct Deleted<'a> {
    /// Its inodes.
    pub(in crate::usage) inodes: &'a Inodes,
    /// Those with names elsewhere, which stay.
    pub(in crate::usage) staying: &'a HashSet<u64>,
    /// Its absolute paths.
    pub(in crate::usage) paths: &'a [PathBuf],
    /// A link that goes with it.
    pub(in crate::usage) link: Option<&'a Link>,
}

impl Deleted<'_> {
    fn goes(&self, inode: u64) -> bool {
        let is_link = self.link.is_some_and(|link| link.inode == inode);
        is_link || self.inodes.contains(inode) && !self.staying.contains(&inode)
    }

    /// The space that is freed with this number of `ranges` of data, and with `unmapped` bytes that are in none of
    /// them.
    pub(in crate::usage) fn beside(&self, volume: &Volume, ranges: u64, unmapped: u64) -> Freed {
        let made = MadeBefore { with_set: self.link.and_then(|link| link.made_in), with_part: None };
        let part_of = |inode| self.goes(inode).then_some(0);
        match chunks::freed(&volume.fd, 1, part_of, |_| true, made) {
            Ok((chunks, _)) => {
                let space = FreeSpace::of(&volume.fd);
                let paths = self.paths.iter().chain(self.link.and_then(Link::unreplaced));
                let Beside { bytes, is_estimate } = beside(&volume.fd, &space, &chunks, paths, (ranges, unmapped));
                let bound = Bound::of(is_estimate, is_estimate);
                Freed { bytes, inode_bytes: chunks.bytes, bound, ..Freed::default() }
            }
            // Only root may read this.
            Err(_) => Freed { bound: Bound::AtLeast, ..Freed::default() },
        }
    }
}

/// The space that XFS frees besides the data.
pub(in crate::usage) struct Beside {
    /// Bytes of chunks of inodes, and of directories that stay.
    pub(in crate::usage) bytes: u64,
    /// XFS may free more or less.
    pub(in crate::usage) is_estimate: bool,
}

/// The space that is freed with `chunks`, with the directories around `paths`, and with this number of `ranges` of
/// data, if `paths` are deleted. `unmapped` are the freed bytes that are in none of the ranges.
pub(in crate::usage) fn beside<'p>(
    fd: impl AsFd,
    space: &FreeSpace,
    chunks: &chunks::Freed,
    paths: impl Iterator<Item = &'p PathBuf>,
    (ranges, unmapped): (u64, u64),
) -> Beside {
    let directories = directories::freed(fd, paths);
    let ranges = ranges + chunks.chunks + space.blocks(unmapped + directories.bytes);
    let is_estimate = chunks.is_estimate || directories.is_estimate || !space.keeps_its_trees(ranges);
    Beside { bytes: chunks.bytes + directories.bytes, is_estimate }
}

//! The chunks of inodes that XFS frees with a set of inodes, and the blocks that its trees of chunks lose. Only for
//! root.
//!
//! XFS frees a chunk of 64 inodes when all of them are free. `INUMBERS` lists the chunks, so their number is exact. The
//! tree of an allocation group has one record for each chunk. A tree with few records is one block. How full the blocks
//! of a larger tree are depends on its past, and is not visible. They are taken as full, as they are if chunks were
//! allocated in ascending order.

use crate::fs::mounts;
use crate::sys::xfs::{self, CHUNK, Geometry};
use rustix::io::Result;
use std::os::fd::AsFd;

/// The bytes of a record, and of a key with its pointer.
const RECORD: u64 = 16;
const POINTER: u64 = 8;

/// The space that is freed with a part of the inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::usage) struct Freed {
    /// Bytes of chunks and of blocks of their trees.
    pub(in crate::usage) bytes: u64,
    /// The number of chunks.
    pub(in crate::usage) chunks: u64,
    /// A tree has several blocks, so the bytes are an estimate.
    pub(in crate::usage) is_estimate: bool,
}

/// Directories in which an inode is made before others are freed.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::usage) struct MadeBefore {
    /// If the set is freed.
    pub(in crate::usage) with_set: Option<u64>,
    /// If only this part is freed.
    pub(in crate::usage) with_part: Option<(usize, u64)>,
}

/// The space that is freed with all inodes of the set, and with the inodes of each of `parts` parts alone. `part_of` is
/// the part of an inode that goes.
///
/// # Errors
/// `PERM` without root.
pub(in crate::usage) fn freed(
    fd: impl AsFd,
    parts: usize,
    part_of: impl Fn(u64) -> Option<usize>,
    is_in_set: impl Fn(usize) -> bool,
    made: MadeBefore,
) -> Result<(Freed, Vec<Freed>)> {
    let geometry = xfs::geometry(&fd)?;
    let (inode, block) = (u64::from(geometry.inode_size), u64::from(geometry.block_size));
    let keeps_chunks = mounts::of(&fd).is_ok_and(|mounts| mounts.iter().any(|mount| mount.has("ikeep")));
    let mut sums = vec![Freed::default(); parts + 1];
    // Chunks are kept for later if a block holds more than one chunk, or if the mount options say so.
    if block <= inode * CHUNK && !keeps_chunks {
        let tree = Tree::of(&geometry);
        // The last one is the set.
        let (mut number, mut all, mut going) = (0, 0, vec![0; parts + 1]);
        let finish = |all: &mut u64, going: &mut [u64], sums: &mut [Freed]| {
            for (sum, going) in sums.iter_mut().zip(&mut *going) {
                sum.bytes +=
                    *going * CHUNK * inode + tree.blocks(*all).saturating_sub(tree.blocks(*all - *going)) * block;
                sum.chunks += *going;
                sum.is_estimate |= *going > 0 && !tree.is_one_block(*all);
            }
            *all = 0;
            going.fill(0);
        };
        // The chunks that get the new inodes, by the part that is freed then.
        let mut taken = Vec::new();
        for (part, near) in made.with_part.into_iter().chain(made.with_set.map(|near| (parts, near))) {
            match nearest_with_room(&fd, &geometry, near)? {
                Some(chunk) => taken.push((part, chunk)),
                // A new chunk would be made.
                None => sums[part].is_estimate = true,
            }
        }
        let stays = |chunk, part| taken.contains(&(part, chunk));
        xfs::chunks(&fd, 0, |chunk| {
            let group = geometry.group_of(chunk.first);
            if group != number {
                finish(&mut all, &mut going, &mut sums);
                number = group;
            }
            all += 1;
            let mut used = (0..CHUNK).filter(|bit| chunk.used >> bit & 1 == 1).map(|bit| part_of(chunk.first + bit));
            // A chunk without used inodes stays as it is.
            if let Some(Some(first)) = used.next() {
                let (mut is_alone, mut is_going) = (true, is_in_set(first));
                for part in used {
                    is_alone &= part == Some(first);
                    is_going &= part.is_some_and(&is_in_set);
                }
                going[first] += u64::from(is_alone && !stays(chunk.first, first));
                going[parts] += u64::from(is_going && !stays(chunk.first, parts));
            }
            true
        })?;
        finish(&mut all, &mut going, &mut sums);
    }
    let set = sums.pop().unwrap_or_default();
    Ok((set, sums))
}

/// The first inode of the chunk in which XFS makes the next inode of a directory: the nearest one in the directory's
/// allocation group that has room. `None` if none has room.
fn nearest_with_room(fd: impl AsFd, geometry: &Geometry, directory: u64) -> Result<Option<u64>> {
    let group = geometry.group_of(directory);
    let mut nearest: Option<(u64, u64)> = None;
    xfs::chunks(fd, 0, |chunk| {
        if geometry.group_of(chunk.first) == group && chunk.used != u64::MAX {
            // As the kernel counts: from the last inode of a chunk before, to the first one of a chunk behind.
            let before = directory.saturating_sub(chunk.first + CHUNK - 1);
            let distance = before.max(chunk.first.saturating_sub(directory));
            if nearest.is_none_or(|(least, _)| distance < least) {
                nearest = Some((distance, chunk.first));
            }
        }
        geometry.group_of(chunk.first) <= group
    })?;
    Ok(nearest.map(|(_, first)| first))
}

/// The shape of the trees.
struct Tree {
    /// The records that fit into a leaf, and the pointers that fit into a node.
    leaf: u64,
    node: u64,
}

impl Tree {
    fn of(geometry: &Geometry) -> Tree {
        let room = geometry.room_of_tree_block();
        Tree { leaf: (room / RECORD).max(2), node: (room / POINTER).max(2) }
    }

    /// Whether a tree with this number of records is certainly one block: each leaf of a larger tree is at least half
    /// full.
    fn is_one_block(&self, records: u64) -> bool {
        records < self.leaf / 2 * 2
    }

    /// The number of blocks of a tree with full leaves.
    fn blocks(&self, records: u64) -> u64 {
        let mut level = records.div_ceil(self.leaf).max(1);
        let mut sum = level;
        while level > 1 {
            level = level.div_ceil(self.node);
            sum += level;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_chunks_has_a_root_above_its_leaves() {
        let tree = Tree { leaf: 252, node: 505 };
        assert_eq!([0, 252, 253, 2409, 437].map(|records| tree.blocks(records)), [1, 1, 3, 11, 3]);
        assert!(tree.is_one_block(251) && !tree.is_one_block(252));
    }
}

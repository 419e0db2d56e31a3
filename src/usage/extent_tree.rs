//! The leaves of Btrfs's extent tree that are freed when items about extents go.
//!
//! The kernel deletes an empty leaf. If a leaf from which an item was deleted is less than a third full, the kernel
//! moves its items to its neighbours. Items that only become shorter, because a reference in them goes, cause neither.
//! So the result depends on the leaves that lose items, and on how full these and their neighbours are. The nodes above
//! the leaves show where each leaf begins; the leaves themselves are read for their fill.

use super::nodes::{Nodes, Pointer};
use crate::util::pool;
use rustix::io::Result;
use std::sync::atomic::{AtomicU32, Ordering};

/// The most leaves that are read: 128 MiB. If more lose items, one in several is read.
const MOST: usize = 8192;

/// The leaves in the order of their keys, and what they lose.
#[derive(Debug)]
pub(super) struct ExtentTree {
    /// The address in the first key of each leaf.
    firsts: Vec<u64>,
    leaves: Vec<Pointer>,
    /// The leaf is the first one below its node. Items are moved only between leaves below one node.
    is_first: Vec<bool>,
    losses: Vec<Loss>,
}

/// What a leaf loses.
#[derive(Debug, Default)]
struct Loss {
    /// Bytes of items that are deleted, and of those that only become shorter.
    deleted: AtomicU32,
    shortened: AtomicU32,
    /// The number of items that are deleted.
    items: AtomicU32,
}

impl Loss {
    fn deleted(&self) -> u64 {
        u64::from(self.deleted.load(Ordering::Relaxed))
    }

    fn shortened(&self) -> u64 {
        u64::from(self.shortened.load(Ordering::Relaxed))
    }

    fn items(&self) -> u64 {
        u64::from(self.items.load(Ordering::Relaxed))
    }
}

impl ExtentTree {
    /// Reads the nodes of the tree with this root. Memory: 40 bytes for each leaf.
    ///
    /// # Errors
    /// If the nodes cannot be read, or have changed since.
    pub(super) fn read(nodes: &Nodes, root: Pointer, level: u8) -> Result<ExtentTree> {
        let (mut pointers, mut is_first) = (vec![(0, root)], vec![true]);
        for level in (1..=level).rev() {
            let below = pool::try_map(&pointers, |(_, node)| nodes.children_with_keys(*node, level))?;
            is_first = below.iter().flat_map(|children| (0..children.len()).map(|child| child == 0)).collect();
            pointers = below.concat();
        }
        let (firsts, leaves): (Vec<u64>, Vec<Pointer>) = pointers.into_iter().unzip();
        let losses = leaves.iter().map(|_| Loss::default()).collect();
        Ok(ExtentTree { firsts, leaves, is_first, losses })
    }

    /// Notes how many bytes items about the extent or block at this address lose, and whether an item is deleted.
    pub(super) fn lose(&self, address: u64, bytes: u64, is_deleted: bool) {
        let behind = self.firsts.partition_point(|first| *first <= address);
        let Some(leaf) = behind.checked_sub(1) else { return };
        // A leaf has at most 64 KiB.
        let bytes = u32::try_from(bytes).unwrap_or(0);
        let loss = &self.losses[leaf];
        if is_deleted {
            loss.deleted.fetch_add(bytes, Ordering::Relaxed);
            loss.items.fetch_add(1, Ordering::Relaxed);
        } else {
            loss.shortened.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// The number of leaves that are freed.
    ///
    /// # Errors
    /// If the leaves cannot be read, or have changed since.
    pub(super) fn freed(&self, nodes: &Nodes) -> Result<u64> {
        let losses = &self.losses;
        let is_near = |leaf: usize| {
            let near = leaf.saturating_sub(1)..(leaf + 2).min(losses.len());
            losses[near].iter().any(|loss| loss.items() > 0)
        };
        let wanted: Vec<usize> = (0..losses.len()).filter(|leaf| is_near(*leaf)).collect();
        let step = wanted.len().div_ceil(MOST).max(1);
        let chosen: Vec<&usize> = wanted.iter().step_by(step).collect();
        let read = pool::try_map(chosen, |leaf| nodes.used(self.leaves[*leaf]))?;
        let mut used = vec![0; losses.len()];
        for (number, leaf) in wanted.iter().enumerate() {
            used[*leaf] = read[number / step];
        }
        Ok(merged(&used, losses, &self.is_first, nodes.room()))
    }
}

/// The number of leaves that are freed if leaves with these numbers of used bytes lose some. A leaf has this `room`.
///
/// Items become shorter before and after others are deleted, in an order that is not known. What comes after the last
/// deletion in a leaf no longer matters: in a random order, half of it after one deletion, and a tenth after nine.
fn merged(used: &[u64], losses: &[Loss], is_first: &[bool], room: u64) -> u64 {
    let mut rest: Vec<u64> =
        used.iter().zip(losses).map(|(used, loss)| used.saturating_sub(loss.deleted() + loss.shortened())).collect();
    let mut freed = 0;
    // The leaf to the left that still exists, below the same node.
    let mut left: Option<usize> = None;
    for leaf in 0..rest.len() {
        if is_first[leaf] {
            left = None;
        }
        let items = losses[leaf].items();
        let at_deletion = rest[leaf] + losses[leaf].shortened() / (items + 1);
        let is_sparse = items > 0 && at_deletion < room / 3;
        if is_sparse {
            if let Some(left) = left {
                let moved = rest[leaf].min(room.saturating_sub(rest[left]));
                rest[left] += moved;
                rest[leaf] -= moved;
            }
            let right = leaf + 1;
            if rest[leaf] > 0 && right < rest.len() && !is_first[right] && rest[right] + rest[leaf] <= room {
                rest[right] += rest[leaf];
                rest[leaf] = 0;
            }
            if rest[leaf] == 0 {
                freed += 1;
                continue;
            }
        }
        left = Some(leaf);
    }
    freed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_leaves_are_joined_with_their_neighbours() {
        let alone = [true, false, false, false];
        let gone = |losses: [(u32, u32, u32); 4], is_first: [bool; 4]| {
            let losses = losses.map(|(deleted, shortened, items)| Loss {
                deleted: deleted.into(),
                shortened: shortened.into(),
                items: items.into(),
            });
            merged(&[900; 4], &losses, &is_first, 1000)
        };
        let (none, deleted) = ((0, 0, 0), |bytes| (bytes, 0, 1));
        let shortened = |bytes, items| (700 - bytes, bytes, items);
        assert_eq!(gone([deleted(700); 4], alone), 3, "four leaves become one");
        assert_eq!(gone([deleted(900); 4], alone), 4, "empty leaves go");
        assert_eq!(gone([shortened(700, 0); 4], alone), 0, "items that become shorter move nothing");
        assert_eq!(gone([shortened(600, 1); 4], alone), 0, "they were not sparse when an item was deleted");
        assert_eq!(gone([shortened(600, 9); 4], alone), 3, "they were sparse at the last of many deletions");
        assert_eq!(gone([deleted(500); 4], alone), 0, "leaves that are a third full stay");
        assert_eq!(gone([none, deleted(850), none, none], alone), 1, "a leaf is split between its neighbours");
        assert_eq!(gone([deleted(700); 4], [true, false, true, false]), 2, "nodes keep their leaves apart");
    }
}

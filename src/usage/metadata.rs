//! The blocks of Btrfs's own trees that are freed with whole subvolumes.
//!
//! A block is freed when nothing refers to it any more: no node, and no root. The extent tree counts these references,
//! so it is enough to count those that go. From the roots down, level by level: if all references to a node go, the
//! node goes too, and with it one reference to each of its children. Only nodes that go are read.
//!
//! The trees that describe extents shrink as well. By how many blocks depends on how full their leaves are before and
//! after, so this part is an estimate: see [`leaves_freed`].

use super::device::Volume;
use super::extent_tree::ExtentTree;
use super::nodes::{Nodes, Pointer};
use crate::monitor::{Amount, Monitor};
use crate::sys::btrfs::tree::{self, EXTENT_ITEM, EXTENT_TREE, Key, METADATA_ITEM, ROOT_ITEM, ROOT_TREE, Step};
use crate::util::pool;
use rustix::io::{Errno, Result};
use std::collections::HashSet;

/// The levels that a tree can have.
const LEVELS: usize = 8;
/// The fewest blocks that are worth a thread.
const FEWEST: usize = 1024;
/// `struct btrfs_root_item`: the generation, address and level of the root node.
const ROOT_GENERATION: usize = 160;
const ROOT_ADDRESS: usize = 176;
const ROOT_LEVEL: usize = 238;

/// The bytes of an item that describes a tree block: its place in the leaf, refs, generation, flags, one reference.
const BLOCK_ITEM: u64 = 25 + 24 + 9;
/// The data that one byte of checksums covers: 4 bytes for 4 KiB.
const SUMMED: u64 = 1024;

/// Subvolumes that go as a whole.
#[derive(Debug)]
pub(super) struct Doomed {
    trees: HashSet<u64>,
    /// The leaves that are freed, sorted.
    leaves: Vec<u64>,
    /// The number of blocks that are freed.
    blocks: u64,
    /// The bytes of these blocks, in the space that df(1) shows.
    bytes: u64,
    /// The size of a block, and what it takes of that space.
    block: (u64, u64),
    nodes: Nodes,
    /// What the leaves of the extent tree lose, if they could be read.
    extent_tree: Option<ExtentTree>,
}

impl Doomed {
    /// Whether this subvolume goes.
    pub(super) fn has_tree(&self, tree: u64) -> bool {
        self.trees.contains(&tree)
    }

    /// Whether this leaf is freed.
    pub(super) fn has_leaf(&self, address: u64) -> bool {
        self.leaves.binary_search(&address).is_ok()
    }

    /// The bytes that all trees free together: the blocks of the subvolumes, and the space of items about extents.
    /// `items` are the bytes of all items about the set's data, `entries` those that go, `data` the bytes of data.
    pub(super) fn bytes(&self, items: u64, entries: u64, data: u64) -> u64 {
        let (size, taken) = self.block;
        let checksums = data / SUMMED / size;
        let known = self.extent_tree.as_ref().and_then(|tree| tree.freed(&self.nodes).ok());
        let leaves = known.unwrap_or_else(|| leaves_freed(items, entries, size) + self.blocks * BLOCK_ITEM / size);
        self.bytes + (leaves + checksums) * taken
    }

    /// Notes how many bytes items about the extent at this address lose, and whether an item is deleted.
    pub(super) fn lose(&self, extent: u64, bytes: u64, is_deleted: bool) {
        if let Some(tree) = &self.extent_tree {
            tree.lose(extent, bytes, is_deleted);
        }
    }
}

/// The leaves of `size` bytes that are freed if `gone` of the bytes of their `items` go, evenly. The kernel joins
/// leaves that are less than a third full.
fn leaves_freed(items: u64, gone: u64, size: u64) -> u64 {
    // Measured: such leaves are five sixths full, and three fifths after they were joined.
    let (before, rest) = (items * 6 / 5 / size, items.saturating_sub(gone));
    if rest * 3 > before * size { 0 } else { before.saturating_sub(rest * 5 / 3 / size) }
}

/// Finds the tree blocks that are freed with these subvolumes. Runs on the threads of the calling pool. Memory: 16
/// bytes for each reference from the nodes that are freed.
///
/// # Errors
/// If the blocks cannot be read.
pub(super) fn doomed(volume: &Volume, trees: HashSet<u64>, monitor: &dyn Monitor) -> Result<Doomed> {
    let nodes = Nodes::open(volume)?;
    let mut levels: [Vec<Pointer>; LEVELS] = Default::default();
    for tree in &trees {
        let (pointer, level) = root(volume, *tree)?;
        levels.get_mut(usize::from(level)).ok_or(Errno::INVAL)?.push(pointer);
    }
    let extent_tree = root(volume, EXTENT_TREE).and_then(|(root, level)| ExtentTree::read(&nodes, root, level)).ok();
    let (mut blocks, mut bytes, mut leaves) = (0, 0, Vec::new());
    let mut taken = 0;
    for level in (0..LEVELS as u8).rev() {
        let mut pointers = std::mem::take(&mut levels[usize::from(level)]);
        pool::sort_unstable(&mut pointers);
        let freed = freed(volume, &pointers)?;
        blocks += freed.len() as u64;
        for block in &freed {
            taken = nodes.disk_bytes(block.address)?;
            bytes += taken;
            if let Some(tree) = &extent_tree {
                tree.lose(block.address, BLOCK_ITEM, true);
            }
        }
        monitor.advance(Amount::default());
        match level.checked_sub(1) {
            Some(below) => {
                let children = pool::try_map(&freed, |node| nodes.children(*node, level))?;
                levels[usize::from(below)].extend(children.into_iter().flatten());
            }
            None => leaves = freed.into_iter().map(|leaf| leaf.address).collect(),
        }
    }
    let block = (nodes.size(), taken);
    Ok(Doomed { trees, leaves, blocks, bytes, block, nodes, extent_tree })
}

/// The root node of a tree, and its level.
fn root(volume: &Volume, number: u64) -> Result<(Pointer, u8)> {
    let mut found = None;
    let (from, to) = (Key::new(number, ROOT_ITEM, 0), Key::new(number, ROOT_ITEM, u64::MAX));
    tree::search(&volume.fd, ROOT_TREE, from, to, |item| {
        let pointer = || Some(Pointer { address: item.u64(ROOT_ADDRESS)?, generation: item.u64(ROOT_GENERATION)? });
        found = pointer().zip(item.u8(ROOT_LEVEL));
        Step::Stop
    })?;
    found.ok_or(Errno::NOENT)
}

/// The blocks to which nothing but these sorted pointers refers.
fn freed(volume: &Volume, pointers: &[Pointer]) -> Result<Vec<Pointer>> {
    let counted: Vec<(Pointer, u64)> =
        pointers.chunk_by(|one, other| one == other).map(|group| (group[0], group.len() as u64)).collect();
    let share = (counted.len() / (pool::threads() * 4)).max(FEWEST);
    let parts: Vec<_> = counted.chunks(share).collect();
    Ok(pool::try_map(parts, |wanted| without_others(volume, wanted))?.concat())
}

/// The blocks, sorted and each with a number of references, to which nothing else refers.
fn without_others(volume: &Volume, wanted: &[(Pointer, u64)]) -> Result<Vec<Pointer>> {
    let (Some((first, _)), Some((last, _))) = (wanted.first(), wanted.last()) else { return Ok(Vec::new()) };
    let (from, to) = (Key::new(first.address, EXTENT_ITEM, 0), Key::last_of(last.address));
    let (mut rest, mut freed) = (wanted, Vec::new());
    tree::search(&volume.fd, EXTENT_TREE, from, to, |item| {
        let at = item.key.objectid;
        while rest.first().is_some_and(|(block, _)| block.address < at) {
            rest = &rest[1..];
        }
        if let Some((block, count)) = rest.first().filter(|(block, _)| block.address == at)
            && matches!(item.key.kind, EXTENT_ITEM | METADATA_ITEM)
        {
            freed.extend(item.u64(0).is_some_and(|references| references <= *count).then_some(*block));
            rest = &rest[1..];
        }
        match rest.first() {
            Some((next, _)) => Step::Seek(Key::new(next.address, EXTENT_ITEM, 0)),
            None => Step::Stop,
        }
    })?;
    Ok(freed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_go_only_if_most_of_their_items_go() {
        let size = 16_384;
        assert_eq!(leaves_freed(1000 * size, 1000 * size, size), 1200);
        assert_eq!(leaves_freed(1000 * size, 300 * size, size), 0);
        assert_eq!(leaves_freed(1000 * size, 700 * size, size), 1200 - 500);
        assert_eq!(leaves_freed(100, 200, size), 0);
    }
}

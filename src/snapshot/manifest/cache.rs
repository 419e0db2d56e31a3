//! The most recently used blocks, shared by the threads that walk a tree in step with its manifest.

use super::block::Block;
use crate::util::mutex::lock;
use std::sync::{Arc, Mutex};

/// A bounded set of unpacked blocks. The least recently used block is dropped first.
#[derive(Debug)]
pub(super) struct Cache {
    /// The most recently used block is last. There are so few that a scan is faster than a table.
    blocks: Mutex<Vec<(usize, Arc<Block>)>>,
    capacity: usize,
}

/// How many bytes the blocks have together, unless a single block has more.
const BYTES: usize = 64 << 20;

impl Cache {
    /// A cache of at most `capacity` blocks.
    pub(super) fn new(capacity: usize) -> Cache {
        Cache { blocks: Mutex::new(Vec::new()), capacity: capacity.max(1) }
    }

    /// A block, if it is cached.
    pub(super) fn get(&self, number: usize) -> Option<Arc<Block>> {
        let mut blocks = lock(&self.blocks);
        let place = blocks.iter().rposition(|(n, _)| *n == number)?;
        blocks[place..].rotate_left(1);
        blocks.last().map(|(_, block)| Arc::clone(block))
    }

    /// Keeps a block.
    pub(super) fn put(&self, number: usize, block: &Arc<Block>) {
        let mut blocks = lock(&self.blocks);
        if blocks.iter().any(|(n, _)| *n == number) {
            return; // Two threads unpacked it at once.
        }
        blocks.push((number, Arc::clone(block)));
        let mut bytes = 0;
        let fit = blocks.iter().rev().take(self.capacity).take_while(|(_, block)| {
            bytes += block.size();
            bytes <= BYTES
        });
        let surplus = blocks.len() - fit.count().max(1);
        blocks.drain(..surplus);
    }
}

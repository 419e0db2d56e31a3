//! A fuzz target for blocks of Btrfs's trees, which are read from the device.

use super::nodes::{Pointer, parse, used};
use crate::util::fuzz::Source;

/// A block, after the place where it should be: two numbers and a level.
pub(crate) fn tree_block(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let (node, level) = (Pointer { address: source.number(), generation: source.number() }, source.byte());
    let mut block = source.rest().to_vec();
    if block.len() < 101 {
        return;
    }
    read(&block, node, level);
    // The block that is expected there.
    block[48..56].copy_from_slice(&node.address.to_le_bytes());
    block[80..88].copy_from_slice(&node.generation.to_le_bytes());
    block[100] = level;
    read(&block, node, level);
}

fn read(block: &[u8], node: Pointer, level: u8) {
    if let Some(children) = parse(block, node, level) {
        assert!(children.len() * 33 + 101 <= block.len(), "pointers from behind the end");
    }
    if let Some(bytes) = used(block, node) {
        assert!(bytes <= 2 * block.len() as u64, "a leaf uses more than it has");
    }
}

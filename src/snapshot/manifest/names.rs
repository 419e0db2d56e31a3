//! The names of one directory's entries, read again from the address of its record. This needs no search and compares
//! no paths, however deep the directory lies.

use super::address::Address;
use super::block::Block;
use super::blocks::Blocks;
use super::wire::Record;
use crate::error::Result;
use std::cmp::Ordering;
use std::sync::Arc;

/// Iterates over the names of a directory's entries in their order, without subdirectories. Holds one block.
pub struct EntryNames<'r> {
    blocks: &'r Blocks,
    number: usize,
    block: Arc<Block>,
    position: u32,
}

impl<'r> EntryNames<'r> {
    /// The names in the directory that has its record at this address. `None` if there is no such record.
    pub(super) fn open(blocks: &'r Blocks, address: Address) -> Result<Option<Self>> {
        if address.block >= blocks.len() {
            return Ok(None);
        }
        let block = blocks.get(address.block)?;
        let Some((Record::Directory { .. }, position)) = block.record(address.offset) else { return Ok(None) };
        Ok(Some(EntryNames { blocks, number: address.block, block, position }))
    }

    /// Whether this is the name of an entry. Names must be requested in rising order: an earlier name is never found.
    pub fn seek(&mut self, name: &[u8]) -> Result<bool> {
        loop {
            let (order, after) = match self.block.record(self.position) {
                Some((Record::Entry { name: found, .. }, after)) => (found.cmp(name), after),
                Some(_) => return Ok(false),
                None => {
                    if self.next_block()? {
                        continue;
                    }
                    return Ok(false);
                }
            };
            if order == Ordering::Greater {
                return Ok(false);
            }
            self.position = after;
            if order == Ordering::Equal {
                return Ok(true);
            }
        }
    }

    /// Continues in the next block if that continues this directory. Otherwise this block is the directory's last one.
    fn next_block(&mut self) -> Result<bool> {
        let next = self.number + 1;
        if next >= self.blocks.index().len() || self.blocks.index().key(next).1.is_empty() {
            return Ok(false);
        }
        self.block = self.blocks.get(next)?;
        self.number = next;
        // The position behind the record that names the directory.
        self.position = self.block.record(0).map_or(u32::MAX, |(_, after)| after);
        Ok(true)
    }
}

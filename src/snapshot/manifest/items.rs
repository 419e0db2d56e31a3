//! The records of a manifest as a stream.

use super::address::Address;
use super::block::Block;
use super::blocks::Blocks;
use super::layout::VERSION;
use super::packed::{PackedBlock, RecordKey};
use super::record::{Directory, Entry, Item};
use super::wire::Record;
use crate::error::Result;

/// Iterator over the records, in their order. A block is unpacked when the iterator reaches it.
///
/// A damaged block gives one error, and the stream continues behind it. The next record may then be an entry of a
/// directory with a lost record; [`directory`](Self::directory) returns that directory's path.
pub struct Items<'r> {
    blocks: &'r Blocks,
    block: Option<Block>,
    next_block: usize,
    position: u32,
    /// The beginning of the record that was returned last.
    given: u32,
    path: Vec<u8>,
    /// The directory to begin with, once the first block is unpacked.
    start: Option<Vec<u8>>,
}

impl<'r> Items<'r> {
    pub(super) fn all(blocks: &'r Blocks) -> Self {
        Items { blocks, block: None, next_block: 0, position: 0, given: 0, path: Vec::new(), start: None }
    }

    pub(super) fn from(blocks: &'r Blocks, directory: &[u8]) -> Self {
        let next_block = blocks.index().find(directory, b"");
        Items {
            blocks,
            block: None,
            next_block,
            position: 0,
            given: 0,
            path: Vec::new(),
            start: Some(directory.to_vec()),
        }
    }

    /// The path of the directory that was returned last, or that holds the entry returned last.
    pub fn directory(&self) -> &[u8] {
        &self.path
    }

    /// The address of the record that was returned last.
    pub fn address(&self) -> Address {
        Address { block: self.next_block.saturating_sub(1), offset: self.given }
    }

    /// Between two blocks: the first record of the next block, and that of the block behind it.
    pub(crate) fn next_block(&self) -> Option<(RecordKey<'r>, Option<RecordKey<'r>>)> {
        let is_between = self.block.as_ref().is_none_or(|block| block.record(self.position).is_none());
        let index = self.blocks.index();
        let key = |number: usize| (number < index.len()).then(|| index.key(number));
        let is_current = self.start.is_none() && self.blocks.version() == VERSION;
        Some((key(self.next_block).filter(|_| is_between && is_current)?, key(self.next_block + 1)))
    }

    /// Between two blocks: passes the next block without unpacking it. `None`: there is none.
    ///
    /// # Errors
    /// Kind `Damage` if its digest is wrong.
    pub(crate) fn take_block(&mut self) -> Result<Option<PackedBlock<'r>>> {
        let Some((key, next)) = self.next_block() else { return Ok(None) };
        let place = self.blocks.index().place(self.next_block);
        let bytes = self.blocks.stored(self.next_block)?;
        self.block = None;
        self.next_block += 1;
        Ok(Some(PackedBlock { bytes, digest: place.digest, raw: place.raw, key, next }))
    }

    fn load_next(&mut self) -> Result<()> {
        let number = self.next_block;
        self.next_block += 1;
        self.position = 0;
        self.block = None;
        let start = self.start.take();
        let block = self.blocks.load(number)?;
        if let Some(start) = start {
            let (mark, _) = block.find(&start);
            self.position = block.mark(mark).map_or(u32::MAX, |mark| mark.record);
            if mark > 0 {
                self.path = block.path(mark - 1);
            }
        }
        self.block = Some(block);
        Ok(())
    }
}

impl Iterator for Items<'_> {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let record = self.block.as_ref().and_then(|block| block.record(self.position));
            let Some((record, after)) = record else {
                if self.next_block >= self.blocks.index().len() {
                    self.block = None;
                    return None;
                }
                match self.load_next() {
                    Ok(()) => continue,
                    Err(error) => return Some(Err(error)),
                }
            };
            self.given = self.position;
            self.position = after;
            match record {
                Record::Continued(path) => {
                    self.path.clear();
                    self.path.extend_from_slice(path);
                }
                Record::Directory { shared, suffix, scaffold, meta } => {
                    self.path.truncate(shared as usize);
                    self.path.extend_from_slice(suffix);
                    let path = self.path.clone();
                    return Some(Ok(Item::Directory(Directory { path, scaffold, meta: meta.into_owned() })));
                }
                Record::Entry { name, meta, body } => {
                    let entry = Entry { name: name.to_vec(), meta: meta.into_owned(), body: body.into_owned() };
                    return Some(Ok(Item::Entry(entry)));
                }
            }
        }
    }
}

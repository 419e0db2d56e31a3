//! One directory of a manifest and its entries, for the merge with the live tree.

use super::block::Block;
use super::blocks::Blocks;
use super::record::{Directory, Entry};
use super::wire::Record;
use crate::error::Result;
use std::cmp::Ordering;
use std::sync::Arc;

/// A directory's record and a position among its entries. Holds one block, however large the directory is.
pub struct DirectoryCursor<'r> {
    blocks: &'r Blocks,
    directory: Directory,
    number: usize,
    block: Arc<Block>,
    position: u32,
    /// An entry that was read already, but not yet returned.
    ahead: Option<Entry>,
}

impl<'r> DirectoryCursor<'r> {
    pub(super) fn open(blocks: &'r Blocks, path: &[u8]) -> Result<Option<Self>> {
        if blocks.index().len() == 0 {
            return Ok(None);
        }
        let number = blocks.index().find(path, b"");
        let block = blocks.get(number)?;
        let (mark, true) = block.find(path) else { return Ok(None) };
        let Some(mark) = block.mark(mark).filter(|mark| !mark.continued) else { return Ok(None) };
        let Some((Record::Directory { scaffold, meta, .. }, position)) = block.record(mark.record) else {
            return Ok(None);
        };
        let directory = Directory { path: path.to_vec(), scaffold, meta: meta.into_owned() };
        Ok(Some(DirectoryCursor { blocks, directory, number, block, position, ahead: None }))
    }

    /// The directory's own record.
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The next entry, without consuming it.
    pub fn peek(&mut self) -> Result<Option<&Entry>> {
        if self.ahead.is_none() {
            self.ahead = self.read()?;
        }
        Ok(self.ahead.as_ref())
    }

    /// Consumes and returns the next entry.
    pub fn advance(&mut self) -> Result<Option<Entry>> {
        match self.ahead.take() {
            Some(entry) => Ok(Some(entry)),
            None => self.read(),
        }
    }

    /// Consumes and returns the entry of this name, if there is one, and skips the entries before it. Names must be
    /// requested in rising order: an earlier name is never found.
    pub fn seek(&mut self, name: &[u8]) -> Result<Option<Entry>> {
        self.seek_with(name, |_| {})
    }

    /// [`seek`](Self::seek) that passes each skipped entry to `passed`: the other side of a merge does not have these.
    pub fn seek_with(&mut self, name: &[u8], mut passed: impl FnMut(Entry)) -> Result<Option<Entry>> {
        while let Some(entry) = self.advance()? {
            match entry.name.as_slice().cmp(name) {
                Ordering::Less => passed(entry),
                Ordering::Equal => return Ok(Some(entry)),
                Ordering::Greater => {
                    self.ahead = Some(entry);
                    break;
                }
            }
        }
        Ok(None)
    }

    /// Skips everything before a name, without reading the blocks between.
    pub fn jump(&mut self, name: &[u8]) -> Result<()> {
        let number = self.blocks.index().find(&self.directory.path, name);
        if number > self.number {
            self.enter(number)?;
        }
        while let Some(entry) = self.peek()? {
            if entry.name.as_slice() >= name {
                break;
            }
            self.ahead = None;
        }
        Ok(())
    }

    fn enter(&mut self, number: usize) -> Result<()> {
        self.block = self.blocks.get(number)?;
        self.number = number;
        self.ahead = None;
        // The position behind the record that names the directory.
        self.position = self.block.record(0).map_or(u32::MAX, |(_, after)| after);
        Ok(())
    }

    fn read(&mut self) -> Result<Option<Entry>> {
        loop {
            match self.block.record(self.position) {
                Some((Record::Entry { name, meta, body }, after)) => {
                    self.position = after;
                    let entry = Entry { name: name.to_vec(), meta: meta.into_owned(), body: body.into_owned() };
                    return Ok(Some(entry));
                }
                Some(_) => return Ok(None),
                None => {}
            }
            let next = self.number + 1;
            if next >= self.blocks.index().len() {
                return Ok(None);
            }
            let (path, name) = self.blocks.index().key(next);
            if name.is_empty() || path != self.directory.path {
                return Ok(None);
            }
            self.enter(next)?;
        }
    }
}

//! The blocks of an open manifest: read, checked against the index, unpacked. `items` and `cursor` handle the records.

use super::block::Block;
use super::cache::Cache;
use super::index::Index;
use super::layout::damage;
use super::limits::{self, Extent};
use super::order;
use super::stored_file::StoredFile;
use crate::error::Result;
use crate::util::compression::{self, Unpacker};
use crate::util::mutex::lock;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The blocks of a manifest, for many threads at once.
pub(super) struct Blocks {
    file: StoredFile,
    version: u32,
    index: Index,
    cache: Cache,
    unpackers: Mutex<Vec<Unpacker>>,
}

impl Blocks {
    /// The blocks of an open manifest; `path` is for messages.
    pub(super) fn new(file: File, path: &Path, version: u32, index: Index) -> Blocks {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let cache = Cache::new(4 * threads.max(8));
        Blocks { file: StoredFile::new(file, path), version, index, cache, unpackers: Mutex::default() }
    }

    /// The version of the manifest's format.
    pub(super) fn version(&self) -> u32 {
        self.version
    }

    /// The path that the manifest was opened with.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Closes the file; each block that is not in the cache opens it again.
    pub(super) fn close(&mut self) -> Result<()> {
        self.file.close()
    }

    /// The number of blocks.
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// The first key of each block.
    pub(super) fn index(&self) -> &Index {
        &self.index
    }

    /// A block through the cache.
    pub(super) fn get(&self, number: usize) -> Result<Arc<Block>> {
        if let Some(block) = self.cache.get(number) {
            return Ok(block);
        }
        let block = Arc::new(self.load(number)?);
        self.cache.put(number, &block);
        Ok(block)
    }

    fn unpack(&self, stored: &[u8], length: usize) -> io::Result<Vec<u8>> {
        let free = lock(&self.unpackers).pop();
        let mut unpacker = free.map_or_else(Unpacker::new, Ok)?;
        let mut raw = Vec::new();
        let unpacked = unpacker.unpack(stored, length, &mut raw);
        lock(&self.unpackers).push(unpacker);
        unpacked.map(|()| raw)
    }

    /// Compares all blocks with their digests.
    ///
    /// # Errors
    /// Kind `Damage` for the first block that has a wrong digest.
    pub(super) fn check(&self) -> Result<()> {
        (0..self.index.len()).try_for_each(|number| self.stored(number).map(|_| ()))
    }

    /// A block's bytes as the file has them, checked.
    pub(super) fn stored(&self, number: usize) -> Result<Vec<u8>> {
        let place = self.index.place(number);
        let limit = compression::longest(limits::BLOCK as usize) as u64;
        let extent = Extent { offset: place.offset, length: u64::from(place.stored), limit };
        let stored = self.file.read(|file| limits::read(file, extent, self.part(number), self.path()))?;
        if *blake3::hash(&stored).as_bytes() != place.digest {
            return Err(damage(self.part(number), self.path(), "its checksum is wrong"));
        }
        Ok(stored)
    }

    fn part(&self, number: usize) -> String {
        format!("block {} of {}", number + 1, self.index.len())
    }

    /// Checks the order of records beyond the ends of a block.
    fn check_order(&self, number: usize, block: &Block) -> std::result::Result<(), &'static str> {
        if number == 0 {
            order::may_follow(None, self.index.key(number).0, 0)?;
        }
        let next = number + 1;
        if next < self.index.len() { block.may_precede(self.index.key(next)) } else { Ok(()) }
    }

    /// A block from the file, checked.
    pub(super) fn load(&self, number: usize) -> Result<Block> {
        let place = self.index.place(number);
        let part = || self.part(number);
        let stored = self.stored(number)?;
        let length = place.raw as usize;
        if u64::from(place.raw) > limits::BLOCK {
            return Err(damage(part(), self.path(), "it is larger than such a part can be"));
        }
        let raw = self.unpack(&stored, length).map_err(|cause| match cause.kind() {
            ErrorKind::OutOfMemory => limits::no_memory(part(), self.path()),
            _ => damage(part(), self.path(), "it cannot be unpacked"),
        })?;
        let block = Block::parse(raw, self.version).map_err(|why| damage(part(), self.path(), why))?;
        if !block.begins_with(self.index.key(number)) {
            return Err(damage(part(), self.path(), "it is not the one that the index names"));
        }
        self.check_order(number, &block).map_err(|why| damage(part(), self.path(), why))?;
        Ok(block)
    }
}

//! Reads a manifest: checks its ends and its index when it is opened, and each block when it is used.

use super::block::Block;
use super::cache::Cache;
use super::cursor::DirectoryCursor;
use super::index::Index;
use super::items::Items;
use super::layout::{self, FOOTER_LENGTH, Footer, PREFIX_LENGTH, damage};
use super::limits::{self, Extent};
use super::record::{Header, Origin, Totals};
use crate::error::{Error, Result};
use crate::util::mutex::lock;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// What a manifest says of itself without its records: read and checked in three small reads, whatever its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Which snapshot it is.
    pub header: Header,
    /// Its sums.
    pub totals: Totals,
    /// The filesystems that it was read from. None in manifests before version 3.
    pub origins: Vec<Origin>,
}

/// A manifest, open for many threads at once. Memory: the index (about 100 bytes for each 64 KiB of records) and a
/// bounded number of unpacked blocks.
pub struct Reader {
    file: File,
    path: PathBuf,
    version: u32,
    summary: Summary,
    index: Index,
    cache: Cache,
    unpackers: Mutex<Vec<zstd::bulk::Decompressor<'static>>>,
}

impl Summary {
    /// Reads the summary of a manifest; `path` is for messages.
    ///
    /// # Errors
    /// Kind `Damage` if anything of it is not what was written; the index and the blocks are not looked at.
    pub fn read(file: &File, path: &Path) -> Result<Summary> {
        Ok(Ends::read(file, path)?.summary)
    }
}

/// What stands before and behind the blocks.
struct Ends {
    version: u32,
    summary: Summary,
    footer: Footer,
    /// Where the blocks begin.
    start: u64,
}

impl Ends {
    fn read(file: &File, path: &Path) -> Result<Ends> {
        let io = |cause| layout::unreadable("ends", path, cause);
        let length = file.metadata().map_err(io)?.len();
        if length < (PREFIX_LENGTH + FOOTER_LENGTH) as u64 {
            return Err(damage("end", path, "the file is cut short"));
        }
        let mut prefix = [0; PREFIX_LENGTH];
        file.read_exact_at(&mut prefix, 0).map_err(io)?;
        let (version, header_length) = layout::parse_prefix(&prefix, path)?;
        let mut footer_bytes = [0; FOOTER_LENGTH];
        file.read_exact_at(&mut footer_bytes, length - FOOTER_LENGTH as u64).map_err(io)?;
        let start = PREFIX_LENGTH as u64 + u64::from(header_length);
        let footer = Footer::parse(&footer_bytes, start, length, path)?;
        let header = Extent { offset: 0, length: start, limit: limits::HEADER };
        let beginning = limits::read(file, header, "header", path)?;
        let totals = Extent { offset: footer.totals_offset, length: footer.totals_length, limit: limits::TOTALS };
        let totals = limits::read(file, totals, "totals", path)?;
        Footer::check(&footer_bytes, &beginning, &totals, path)?;
        let header = postcard::from_bytes(&beginning[PREFIX_LENGTH..])
            .ok()
            .filter(Header::is_dated)
            .ok_or_else(|| damage("header", path, "it is malformed"))?;
        let (totals, origins) =
            Self::totals(&totals, version).ok_or_else(|| damage("totals", path, "they are malformed"))?;
        Ok(Ends { version, summary: Summary { header, totals, origins }, footer, start })
    }

    fn totals(bytes: &[u8], version: u32) -> Option<(Totals, Vec<Origin>)> {
        match version {
            1 | 2 => Some((postcard::from_bytes(bytes).ok()?, Vec::new())),
            _ => postcard::from_bytes(bytes).ok(),
        }
    }
}

impl Reader {
    /// Opens a manifest.
    pub fn open(path: &Path) -> Result<Reader> {
        Self::from_file(File::open(path).map_err(|cause| Error::io("open", path, cause))?, path)
    }

    /// Reads a manifest from a file that is open already; `path` is for messages.
    ///
    /// # Errors
    /// Kind `Damage` if the file is cut short or its beginning, index, totals or end are not what was written.
    pub fn from_file(file: File, path: &Path) -> Result<Reader> {
        let Ends { version, summary, footer, start } = Ends::read(&file, path)?;
        let index = Extent { offset: footer.index_offset, length: footer.index_length, limit: limits::INDEX };
        let bytes = limits::read(&file, index, "index", path)?;
        if *blake3::hash(&bytes).as_bytes() != footer.index_digest {
            return Err(damage("index", path, "its checksum is wrong"));
        }
        let index = Index::parse(&bytes, footer.blocks, start, footer.index_offset)
            .ok_or_else(|| damage("index", path, "it contradicts itself"))?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let cache = Cache::new(4 * threads.max(8));
        Ok(Reader { file, path: path.to_path_buf(), version, summary, index, cache, unpackers: Mutex::default() })
    }

    /// The version of its format. In version 1 no record has flags and a project id.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Which snapshot it is.
    pub fn header(&self) -> &Header {
        &self.summary.header
    }

    /// Its sums.
    pub fn totals(&self) -> &Totals {
        &self.summary.totals
    }

    /// The filesystems that it was read from. None in manifests before version 3.
    pub fn origins(&self) -> &[Origin] {
        &self.summary.origins
    }

    /// The path it was opened with.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many blocks it has.
    pub fn blocks(&self) -> usize {
        self.index.len()
    }

    /// All records in their order.
    pub fn items(&self) -> Items<'_> {
        Items::all(self)
    }

    /// The records from that of a directory on, or from the first directory behind where it would be.
    pub fn items_from(&self, directory: &[u8]) -> Items<'_> {
        Items::from(self, directory)
    }

    /// A directory and its entries, if the snapshot has it.
    pub fn directory(&self, path: &[u8]) -> Result<Option<DirectoryCursor<'_>>> {
        DirectoryCursor::open(self, path)
    }

    /// A directory and its entries from a name on: a way to share out a huge directory among threads.
    pub fn entries_from(&self, path: &[u8], first_name: &[u8]) -> Result<Option<DirectoryCursor<'_>>> {
        let Some(mut cursor) = self.directory(path)? else { return Ok(None) };
        cursor.jump(first_name)?;
        Ok(Some(cursor))
    }

    pub(super) fn index(&self) -> &Index {
        &self.index
    }

    /// A block through the cache.
    pub(super) fn block(&self, number: usize) -> Result<Arc<Block>> {
        if let Some(block) = self.cache.get(number) {
            return Ok(block);
        }
        let block = Arc::new(self.load(number)?);
        self.cache.put(number, &block);
        Ok(block)
    }

    /// Reads all of the file and compares it with its digests: nothing is unpacked.
    ///
    /// # Errors
    /// Kind `Damage` for the first block that is not what was written.
    pub fn check(&self) -> Result<()> {
        (0..self.index.len()).try_for_each(|number| self.stored(number).map(|_| ()))
    }

    /// A block's bytes as they stand in the file, checked.
    fn stored(&self, number: usize) -> Result<Vec<u8>> {
        let place = self.index.place(number);
        let limit = zstd::zstd_safe::compress_bound(limits::BLOCK as usize) as u64;
        let extent = Extent { offset: place.offset, length: u64::from(place.stored), limit };
        let stored = limits::read(&self.file, extent, self.part(number), &self.path)?;
        if *blake3::hash(&stored).as_bytes() != place.digest {
            return Err(damage(self.part(number), &self.path, "its checksum is wrong"));
        }
        Ok(stored)
    }

    fn part(&self, number: usize) -> String {
        format!("block {} of {}", number + 1, self.index.len())
    }

    /// A block from the file, checked.
    pub(super) fn load(&self, number: usize) -> Result<Block> {
        let place = self.index.place(number);
        let part = || self.part(number);
        let stored = self.stored(number)?;
        let length = place.raw as usize;
        if u64::from(place.raw) > limits::BLOCK {
            return Err(damage(part(), &self.path, "it is larger than such a part can be"));
        }
        // A frame need not say how much it unpacks to. One that does is held to it before memory is reserved.
        let claimed = zstd::zstd_safe::get_frame_content_size(&stored).ok().flatten();
        if claimed.is_some_and(|claimed| claimed != length as u64) {
            return Err(damage(part(), &self.path, "it cannot be unpacked"));
        }
        let mut raw = Vec::new();
        raw.try_reserve_exact(length).map_err(|_| limits::no_memory(part(), &self.path))?;
        let free = lock(&self.unpackers).pop();
        let mut unpacker = match free {
            Some(unpacker) => unpacker,
            None => zstd::bulk::Decompressor::new()
                .map_err(|cause| Error::io(format!("unpack the {} of", part()), &self.path, cause))?,
        };
        let unpacked = unpacker.decompress_to_buffer(&stored, &mut raw);
        lock(&self.unpackers).push(unpacker);
        if unpacked.is_err() || raw.len() != length {
            return Err(damage(part(), &self.path, "it cannot be unpacked"));
        }
        let block = Block::parse(raw, self.version).map_err(|why| damage(part(), &self.path, why))?;
        if !block.begins_with(self.index.key(number)) {
            return Err(damage(part(), &self.path, "it is not the one that the index names"));
        }
        Ok(block)
    }
}

//! An open manifest. Opening checks its ends and its index; `blocks` reads and checks each block on use.

use super::address::Address;
use super::blocks::Blocks;
use super::cursor::DirectoryCursor;
use super::index::Index;
use super::items::Items;
use super::layout::{self, FOOTER_LENGTH, Footer, PREFIX_LENGTH, damage};
use super::limits::{self, Extent};
use super::names::EntryNames;
use super::packed::RecordKey;
use super::record::{Entry, Header, Origin, Totals};
use super::wire::Record;
use crate::error::{Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The description of a snapshot without its records. It takes four small reads, which are checked, whatever the
/// manifest's size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    /// The identity of the snapshot.
    pub header: Header,
    /// Its sums.
    pub totals: Totals,
    /// The filesystems that it was read from. Empty in manifests before version 3.
    pub origins: Vec<Origin>,
}

/// A manifest, open for many threads at once. It needs memory for the index (about 100 bytes for each 64 KiB of
/// records) and for a bounded number of unpacked blocks.
pub struct Reader {
    summary: Summary,
    identity: [u8; 32],
    pub(super) blocks: Blocks,
}

impl Summary {
    /// Reads the summary of a manifest; `path` is for messages.
    ///
    /// # Errors
    /// Kind `Damage` if any of these parts is damaged; the index and the blocks are not read.
    pub(crate) fn read(file: &File, path: &Path) -> Result<Summary> {
        Ok(Ends::read(file, path)?.summary)
    }
}

/// The parts before and behind the blocks.
struct Ends {
    version: u32,
    summary: Summary,
    footer: Footer,
    /// The digest of the footer.
    identity: [u8; 32],
    /// The offset of the first block.
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
        let identity = *blake3::hash(&footer_bytes).as_bytes();
        Ok(Ends { version, summary: Summary { header, totals, origins }, footer, identity, start })
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

    /// Reads a manifest from an open file; `path` is for messages.
    ///
    /// # Errors
    /// Kind `Damage` if the file is cut short or its beginning, index, totals or end are damaged.
    pub fn from_file(file: File, path: &Path) -> Result<Reader> {
        let Ends { version, summary, footer, identity, start } = Ends::read(&file, path)?;
        let index = Extent { offset: footer.index_offset, length: footer.index_length, limit: limits::INDEX };
        let bytes = limits::read(&file, index, "index", path)?;
        if *blake3::hash(&bytes).as_bytes() != footer.index_digest {
            return Err(damage("index", path, "its checksum is wrong"));
        }
        let index = Index::parse(&bytes, footer.blocks, start, footer.index_offset)
            .ok_or_else(|| damage("index", path, "it contradicts itself"))?;
        Ok(Reader { summary, identity, blocks: Blocks::new(file, path, version, index) })
    }

    /// The version of its format. In version 1 no record has flags and a project id.
    pub fn version(&self) -> u32 {
        self.blocks.version()
    }

    /// A digest of all digests in it: no other manifest has it.
    pub(crate) fn identity(&self) -> [u8; 32] {
        self.identity
    }

    /// The identity of the snapshot.
    pub fn header(&self) -> &Header {
        &self.summary.header
    }

    /// Its sums.
    pub fn totals(&self) -> &Totals {
        &self.summary.totals
    }

    /// The filesystems that it was read from. Empty in manifests before version 3.
    pub fn origins(&self) -> &[Origin] {
        &self.summary.origins
    }

    /// The path that it was opened with.
    pub fn path(&self) -> &Path {
        self.blocks.path()
    }

    /// Closes its file until a block is read. Use it where more manifests are read at once than a process may have
    /// open files. Nothing keeps the snapshot from being removed then.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.blocks.close()
    }

    /// How many blocks it has.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The first record of a block.
    pub(crate) fn first_of_block(&self, number: usize) -> RecordKey<'_> {
        self.blocks.index().key(number)
    }

    /// All records in their order.
    pub fn items(&self) -> Items<'_> {
        Items::all(&self.blocks)
    }

    /// The records from this directory on. If it does not exist, from the first directory that would come behind it.
    pub fn items_from(&self, directory: &[u8]) -> Items<'_> {
        Items::from(&self.blocks, directory)
    }

    /// A directory and its entries, if the snapshot has it.
    pub fn directory(&self, path: &[u8]) -> Result<Option<DirectoryCursor<'_>>> {
        DirectoryCursor::open(&self.blocks, path)
    }

    /// A directory and its entries from a name on. Threads can use it to share out a huge directory.
    pub fn entries_from(&self, path: &[u8], first_name: &[u8]) -> Result<Option<DirectoryCursor<'_>>> {
        let Some(mut cursor) = self.directory(path)? else { return Ok(None) };
        cursor.jump(first_name)?;
        Ok(Some(cursor))
    }

    /// The entry of a directory with this name, if the snapshot has it.
    pub fn entry(&self, directory: &[u8], name: &[u8]) -> Result<Option<Entry>> {
        match self.entries_from(directory, name)? {
            Some(mut cursor) => cursor.seek(name),
            None => Ok(None),
        }
    }

    /// The entry at an address that [`Items::address`] of this manifest returned, and the path of its directory. `None`
    /// if there is no entry.
    pub fn entry_at(&self, address: Address) -> Result<Option<(Vec<u8>, Entry)>> {
        if address.block >= self.blocks() {
            return Ok(None);
        }
        let block = self.blocks.get(address.block)?;
        let Some((Record::Entry { name, meta, body }, _)) = block.record(address.offset) else { return Ok(None) };
        let entry = Entry { name: name.to_vec(), meta: meta.into_owned(), body: body.into_owned() };
        Ok(Some((block.path_before(address.offset), entry)))
    }

    /// The names of the entries of the directory that has its record at this address. `None` if there is no such
    /// record.
    pub fn names_at(&self, address: Address) -> Result<Option<EntryNames<'_>>> {
        EntryNames::open(&self.blocks, address)
    }

    /// Reads the whole file and compares it with its digests. It unpacks nothing.
    ///
    /// # Errors
    /// Kind `Damage` for the first block that has a wrong digest.
    pub fn check(&self) -> Result<()> {
        self.blocks.check()
    }
}

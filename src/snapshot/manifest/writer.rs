//! Writes a manifest: the records, in their order, become compressed blocks. An index, the totals and the footer
//! follow.

use super::index::IndexRecord;
use super::layout::{self, BLOCK_TARGET, Digest, Footer};
use super::limits;
use super::order;
use super::packed::{PackedBlock, RecordKey};
use super::record::{Directory, Entry, Header, Item, Origin, Totals};
use super::wire::{self, Record};
use crate::error::{Error, Result};
use crate::util::compression::Packer;
use crate::util::path::split;
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// zstd's level. Level 1 makes manifests a few percent larger and nothing else faster.
const LEVEL: i32 = 3;

/// A manifest that is being written. It needs memory for one block, and about 100 bytes of index for each block.
pub struct Writer {
    out: BufWriter<File>,
    path: PathBuf,
    beginning: Vec<u8>,
    offset: u64,
    packer: Packer,
    packed: Vec<u8>,
    block: OpenBlock,
    index: Vec<u8>,
    index_path: Vec<u8>,
    blocks: u64,
    directory: Option<Vec<u8>>,
    last_name: Option<Vec<u8>>,
    origins: Vec<Origin>,
    /// How many bytes of records fill a block.
    target: usize,
}

/// The block that is being filled.
#[derive(Default)]
struct OpenBlock {
    raw: Vec<u8>,
    /// The length of the path at its beginning, in bytes.
    leading: usize,
    /// The directory of its first record, and that record's name if it is an entry.
    key: (Vec<u8>, Option<Vec<u8>>),
}

impl Writer {
    /// Begins a manifest in an empty file; `path` is for messages.
    pub fn create(file: File, path: &Path, header: &Header) -> Result<Writer> {
        if !header.is_dated() {
            return Err(Error::failed("date a snapshot before 1970 or after 9999 in")
                .at(path)
                .hint("is the clock right?"));
        }
        let mut encoded = Vec::new();
        wire::encode(header, &mut encoded)?;
        let length = u32::try_from(encoded.len())
            .ok()
            .filter(|length| u64::from(*length) + layout::PREFIX_LENGTH as u64 <= limits::HEADER)
            .ok_or_else(|| Error::failed("keep so many sources or tags in the manifest").at(path))?;
        let mut beginning = layout::prefix(length).to_vec();
        beginning.extend_from_slice(&encoded);
        let packer = Packer::new(LEVEL).map_err(|cause| Error::io("set up compression for", path, cause))?;
        let mut writer = Writer {
            out: BufWriter::with_capacity(256 * 1024, file),
            path: path.to_path_buf(),
            offset: 0,
            packer,
            packed: Vec::new(),
            block: OpenBlock::default(),
            index: Vec::new(),
            index_path: Vec::new(),
            blocks: 0,
            directory: None,
            last_name: None,
            origins: Vec::new(),
            target: BLOCK_TARGET,
            beginning,
        };
        let beginning = std::mem::take(&mut writer.beginning);
        writer.write(&beginning)?;
        writer.beginning = beginning;
        Ok(writer)
    }

    /// Appends a record.
    ///
    /// # Errors
    /// A mistake of the caller: a record out of order, an entry before any directory, a directory before its parent
    /// (the root may be missing), a name that no file can have. And errors of writing.
    pub fn push(&mut self, item: &Item) -> Result<()> {
        match item {
            Item::Directory(directory) => self.push_directory(directory),
            Item::Entry(entry) => self.push_entry(entry),
        }
    }

    /// [`push`](Self::push) for a directory.
    pub fn push_directory(&mut self, directory: &Directory) -> Result<()> {
        let path = &directory.path;
        let before = self.directory.as_deref();
        let shared = before.map_or(0, |before| order::shared_length(before, path));
        order::may_follow(before, path, shared).map_err(|why| self.misuse(path, why))?;
        if path.len() > limits::PATH {
            return Err(self.misuse(path, "a directory's path is too long"));
        }
        self.cut_if_full()?;
        let shared = if self.block.raw.is_empty() {
            self.block.key = (path.clone(), None);
            self.block.leading = path.len();
            0
        } else {
            shared
        };
        let record = Record::Directory {
            shared: shared as u32,
            suffix: &path[shared..],
            scaffold: directory.scaffold,
            meta: Cow::Borrowed(&directory.meta),
        };
        record.append_to(&mut self.block.raw)?;
        self.last_name = None;
        let kept = self.directory.get_or_insert_default();
        let common = order::shared_length(kept, path);
        kept.truncate(common);
        kept.extend_from_slice(&path[common..]);
        Ok(())
    }

    /// [`push`](Self::push) for an entry.
    pub fn push_entry(&mut self, entry: &Entry) -> Result<()> {
        let Some(directory) = self.directory.as_deref() else {
            return Err(self.misuse(&entry.name, "an entry comes before any directory"));
        };
        if !order::is_name(&entry.name) {
            return Err(self.misuse(&entry.name, "invalid entry name"));
        }
        if self.last_name.as_ref().is_some_and(|last| *last >= entry.name) {
            return Err(self.misuse(&entry.name, "entries are out of order or there twice"));
        }
        if self.block.raw.is_empty() || self.block.is_full(self.target) {
            let directory = directory.to_vec();
            self.cut()?;
            Record::Continued(&directory).append_to(&mut self.block.raw)?;
            self.block.leading = self.block.raw.len();
            self.block.key = (directory, Some(entry.name.clone()));
        }
        Record::entry(entry).append_to(&mut self.block.raw)?;
        let last = self.last_name.get_or_insert_default();
        last.clear();
        last.extend_from_slice(&entry.name);
        Ok(())
    }

    /// Lets blocks become twice as large as usual, so that a few records between two packed blocks become a part of a
    /// block instead of a small one.
    pub(crate) fn expect_blocks(&mut self) {
        self.target = 2 * BLOCK_TARGET;
    }

    /// Whether a packed block may follow: no block would become much smaller than usual by it.
    pub(crate) fn may_take_block(&self) -> bool {
        self.block.raw.is_empty() || self.block.raw.len() >= BLOCK_TARGET / 2
    }

    /// Appends all records of a packed block. They must come behind all records so far. The next record must be the
    /// first of the block that followed it in its manifest, or one that comes behind that.
    pub(crate) fn push_block(&mut self, block: &PackedBlock<'_>) -> Result<()> {
        self.cut()?;
        self.append_block(&block.bytes, (block.raw, block.digest), block.key)?;
        // The records that follow are in this directory or behind it.
        let directory = match block.next {
            Some((path, b"")) => split(path).0,
            Some((path, _)) => path,
            None => return Ok(()),
        };
        self.directory = Some(directory.to_vec());
        self.last_name = None;
        Ok(())
    }

    /// Records the filesystems that the entries were read from.
    pub fn set_origins(&mut self, origins: Vec<Origin>) {
        self.origins = origins;
    }

    /// Ends the manifest and syncs it to the disk.
    pub fn finish(mut self, totals: &Totals) -> Result<File> {
        self.cut()?;
        let mut encoded = Vec::new();
        wire::encode(&(totals, &self.origins), &mut encoded)?;
        let index = std::mem::take(&mut self.index);
        let footer = Footer {
            index_offset: self.offset,
            index_length: index.len() as u64,
            totals_offset: self.offset + index.len() as u64,
            totals_length: encoded.len() as u64,
            blocks: self.blocks,
            index_digest: *blake3::hash(&index).as_bytes(),
        };
        let footer = footer.encode(&self.beginning, &encoded);
        self.write(&index)?;
        self.write(&encoded)?;
        self.write(&footer)?;
        let file = self.out.into_inner().map_err(|error| Error::io("write", &self.path, error.into_error()))?;
        file.sync_all().map_err(|cause| Error::io("sync", &self.path, cause))?;
        Ok(file)
    }

    fn cut_if_full(&mut self) -> Result<()> {
        if self.block.is_full(self.target) { self.cut() } else { Ok(()) }
    }

    /// Writes the current block and begins an empty one.
    fn cut(&mut self) -> Result<()> {
        if self.block.raw.is_empty() {
            return Ok(());
        }
        let mut packed = std::mem::take(&mut self.packed);
        self.packer
            .pack(&self.block.raw, &mut packed)
            .map_err(|cause| Error::io("compress a block of", &self.path, cause))?;
        let digest: Digest = *blake3::hash(&packed).as_bytes();
        let raw = u32::try_from(self.block.raw.len()).unwrap_or(u32::MAX);
        let (directory, name) = std::mem::take(&mut self.block.key);
        self.append_block(&packed, (raw, digest), (&directory, name.as_deref().unwrap_or_default()))?;
        self.packed = packed;
        self.block.raw.clear();
        self.block.leading = 0;
        Ok(())
    }

    /// Writes a packed block and its record in the index.
    fn append_block(&mut self, packed: &[u8], (raw, digest): (u32, Digest), key: RecordKey<'_>) -> Result<()> {
        let too_large = || Error::io("write", &self.path, io::Error::from(io::ErrorKind::FileTooLarge));
        if u64::from(raw) > limits::BLOCK || self.index.len() as u64 > limits::INDEX {
            return Err(too_large());
        }
        let stored = u32::try_from(packed.len()).map_err(|_| too_large())?;
        self.write(packed)?;
        let (directory, name) = key;
        let shared = order::shared_length(&self.index_path, directory);
        let record = IndexRecord { stored, raw, digest, shared: shared as u32, suffix: &directory[shared..], name };
        wire::encode(&record, &mut self.index)?;
        self.index_path.truncate(shared);
        self.index_path.extend_from_slice(&directory[shared..]);
        self.blocks += 1;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|cause| Error::io("write", &self.path, cause))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn misuse(&self, path: &[u8], why: &str) -> Error {
        let path = crate::util::text::path(Path::new(OsStr::from_bytes(path)));
        Error::io(format!("put {path} into"), &self.path, io::Error::new(io::ErrorKind::InvalidInput, why))
    }
}

impl OpenBlock {
    /// A block must be several times as long as the path at its beginning. Otherwise the index of a deep tree would be
    /// as large as the tree's records.
    fn is_full(&self, target: usize) -> bool {
        let records = self.raw.len() - self.leading.min(self.raw.len());
        records >= target && records >= 8 * self.leading
    }
}

//! The file of a map: written from sorted lists, read as a stream. `docs/format.md` describes it.
//!
//! A reader trusts nothing: each block has a digest that depends on everything before it, and no number in the file
//! decides how much memory is reserved. A map only saves time, so anything unexpected means that there is no map.

use super::types::{Identity, Range, Run};
use crate::util::compression::{self, Packer, Unpacker};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, BufReader, Read, Write};

const MAGIC: &[u8; 8] = b"pleachUM";
const VERSION: u32 = 1;
/// The longest header.
const HEADER: usize = 4096;
/// The longest block, unpacked.
const BLOCK: usize = 64 << 10;
/// The longest record: four numbers.
const RECORD: usize = 4 * 10;
const DIGEST: usize = 32;
const LEVEL: i32 = 3;

/// The beginning of a map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// The name of the snapshot.
    pub(crate) name: String,
    /// The tree, as it was.
    pub(crate) identity: Identity,
    /// The number of runs of inodes.
    pub(crate) runs: u64,
    /// The number of ranges.
    pub(crate) ranges: u64,
}

fn damaged() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

fn encode<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(|_| damaged())
}

/// The digest of a block: of the digest before it, its length when unpacked, and its bytes.
fn chain(before: &[u8; DIGEST], raw: usize, stored: &[u8]) -> [u8; DIGEST] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before).update(&(raw as u64).to_le_bytes()).update(stored);
    *hasher.finalize().as_bytes()
}

/// Writes a map. The caller syncs the file.
///
/// # Errors
/// Those of `out`.
pub(super) fn write(
    out: &mut impl Write,
    header: &Header,
    runs: impl Iterator<Item = Run>,
    ranges: impl Iterator<Item = Range>,
) -> io::Result<()> {
    let packed = encode(header)?;
    let mut start = Vec::new();
    start.extend_from_slice(MAGIC);
    start.extend_from_slice(&VERSION.to_le_bytes());
    start.extend_from_slice(&(!VERSION).to_le_bytes());
    start.extend_from_slice(&(packed.len() as u32).to_le_bytes());
    start.extend_from_slice(&packed);
    out.write_all(&start)?;
    let before = *blake3::hash(&start).as_bytes();
    let mut blocks = Blocks { out, before, block: Vec::new(), packer: Packer::new(LEVEL)?, packed: Vec::new() };
    let mut at = 0;
    for run in runs {
        blocks.add(&(run.start - at, run.end - run.start))?;
        at = run.end;
    }
    at = 0;
    for range in ranges {
        blocks.add(&(range.start - at, range.length, range.count, range.inode))?;
        at = range.start;
    }
    blocks.finish()
}

struct Blocks<'a, W> {
    out: &'a mut W,
    before: [u8; DIGEST],
    block: Vec<u8>,
    packer: Packer,
    packed: Vec<u8>,
}

impl<W: Write> Blocks<'_, W> {
    fn add<T: Serialize>(&mut self, record: &T) -> io::Result<()> {
        if self.block.len() > BLOCK - RECORD {
            self.flush()?;
        }
        self.block.extend(encode(record)?);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.packer.pack(&self.block, &mut self.packed)?;
        self.before = chain(&self.before, self.block.len(), &self.packed);
        self.out.write_all(&(self.packed.len() as u32).to_le_bytes())?;
        self.out.write_all(&(self.block.len() as u32).to_le_bytes())?;
        self.out.write_all(&self.before)?;
        self.out.write_all(&self.packed)?;
        self.block.clear();
        Ok(())
    }

    /// Writes the last block, and an empty one that marks the end.
    fn finish(mut self) -> io::Result<()> {
        if !self.block.is_empty() {
            self.flush()?;
        }
        let end = chain(&self.before, 0, &[]);
        self.out.write_all(&[0; 8])?;
        self.out.write_all(&end)
    }
}

/// An open map, read from its beginning to its end: first the runs, then the ranges.
///
/// Memory: one block, and a buffer for reading.
#[derive(Debug)]
pub(crate) struct Reader<R: Read = std::fs::File> {
    header: Header,
    input: BufReader<R>,
    digest: [u8; DIGEST],
    block: Vec<u8>,
    /// How much of the block was read.
    used: usize,
    runs: u64,
    ranges: u64,
    /// Where the last run ended, or where the last range began.
    at: u64,
}

impl<R: Read> Reader<R> {
    /// Opens a map.
    ///
    /// # Errors
    /// If it is not a map of this version, or is damaged.
    pub(crate) fn open(input: R) -> io::Result<Reader<R>> {
        let mut input = BufReader::with_capacity(16 << 10, input);
        let mut start = vec![0; 20];
        input.read_exact(&mut start)?;
        let number = |at: usize| u32::from_le_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]]);
        let length = number(16) as usize;
        if &start[..8] != MAGIC || number(8) != VERSION || number(12) != !VERSION || length > HEADER {
            return Err(damaged());
        }
        start.resize(20 + length, 0);
        input.read_exact(&mut start[20..])?;
        let (header, rest): (Header, _) = postcard::take_from_bytes(&start[20..]).map_err(|_| damaged())?;
        if !rest.is_empty() {
            return Err(damaged());
        }
        let digest = *blake3::hash(&start).as_bytes();
        let (runs, ranges) = (header.runs, header.ranges);
        Ok(Reader { header, input, digest, block: Vec::new(), used: 0, runs, ranges, at: 0 })
    }

    /// Its header. Only [`Reader::next_range`] at the end proves that it is intact.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The next run of inodes. `None` after the last.
    ///
    /// # Errors
    /// If the map is damaged.
    pub(super) fn next_run(&mut self) -> io::Result<Option<Run>> {
        let Some(left) = self.runs.checked_sub(1) else {
            return Ok(None);
        };
        let (gap, length): (u64, u64) = self.record()?;
        let start = self.at.checked_add(gap).ok_or_else(damaged)?;
        let end = start.checked_add(length).filter(|_| length > 0).ok_or_else(damaged)?;
        self.runs = left;
        self.at = if left == 0 { 0 } else { end };
        Ok(Some(start..end))
    }

    /// The next range. `None` after the last, if everything that was read is intact. Skips runs that were not read.
    ///
    /// # Errors
    /// If the map is damaged.
    pub(super) fn next_range(&mut self) -> io::Result<Option<Range>> {
        while self.runs > 0 {
            self.next_run()?;
        }
        let Some(left) = self.ranges.checked_sub(1) else {
            return self.end().map(|()| None);
        };
        let (gap, length, count, inode): (u64, u32, u32, u64) = self.record()?;
        let start = self.at.checked_add(gap).ok_or_else(damaged)?;
        let is_sound = length > 0 && count > 0 && start.checked_add(length.into()).is_some();
        if !is_sound {
            return Err(damaged());
        }
        (self.ranges, self.at) = (left, start);
        Ok(Some(Range { start, length, count, inode }))
    }

    /// The bytes that it holds.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.block.capacity() + self.input.capacity() + self.header.name.capacity()
    }

    fn record<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        if self.used == self.block.len() && !self.load()? {
            return Err(damaged());
        }
        let block = self.block.get(self.used..).unwrap_or_default();
        let (record, rest) = postcard::take_from_bytes(block).map_err(|_| damaged())?;
        self.used = self.block.len() - rest.len();
        Ok(record)
    }

    /// The end: nothing may follow.
    fn end(&mut self) -> io::Result<()> {
        let is_over = self.used == self.block.len() && !self.load()? && self.input.read(&mut [0])? == 0;
        if is_over { Ok(()) } else { Err(damaged()) }
    }

    /// Reads a block. False at the block that marks the end.
    fn load(&mut self) -> io::Result<bool> {
        let (mut lengths, mut digest) = ([0; 8], [0; DIGEST]);
        self.input.read_exact(&mut lengths)?;
        self.input.read_exact(&mut digest)?;
        let [a, b, c, d, e, f, g, h] = lengths;
        let (stored, raw) = (u32::from_le_bytes([a, b, c, d]) as usize, u32::from_le_bytes([e, f, g, h]) as usize);
        if raw > BLOCK || stored > compression::longest(BLOCK) {
            return Err(damaged());
        }
        let mut packed = vec![0; stored];
        self.input.read_exact(&mut packed)?;
        if chain(&self.digest, raw, &packed) != digest {
            return Err(damaged());
        }
        self.digest = digest;
        (self.used, self.block) = (0, Vec::new());
        if raw == 0 && stored == 0 {
            return Ok(false);
        }
        // Its memory would be more than that of the rest, and many maps may be open.
        Unpacker::new()?.unpack(&packed, raw, &mut self.block)?;
        if raw > 0 { Ok(true) } else { Err(damaged()) }
    }
}

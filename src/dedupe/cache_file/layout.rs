//! The layouts of a cache file: its header, and where the entries and the block index are. `docs/dedupe.md` describes
//! them.

use super::section::{CHECKSUM, Section};
use crate::dedupe::entry::LENGTH;
use crate::fs::pread::read_full;
use crate::monitor::CacheFault;
use std::fs::File;
use std::io;
use std::ops::Range;

/// How every cache begins.
pub(super) const MAGIC: [u8; 16] = *b"pleach dedupe\n\0\0";
/// The version that is written.
pub(super) const VERSION: u32 = 2;
/// The part of the header that all versions have.
pub(super) const COMMON: usize = 32;
/// Bytes of it that are zero in every cache, because versions will not need them. A text that begins like a cache has
/// no zeros there.
pub(super) const ZEROS: Range<usize> = 18..24;
/// The length of the header.
pub(super) const HEADER: usize = 192;
/// Where the checksums are: of the entries, of the index, of the header up to this one.
const CHECKSUMS: [usize; 3] = [96, 128, 160];

/// Where the parts of a cache file are.
#[derive(Debug)]
pub(super) struct Layout {
    /// The number of entries.
    pub(super) count: u64,
    pub(super) entries: Section,
    pub(super) index: Section,
}

impl Layout {
    /// Reads the layout of a file of this size. The sections have yet to be verified.
    pub(super) fn read(file: &File, size: u64) -> io::Result<Result<Layout, CacheFault>> {
        let mut bytes = [0; HEADER];
        let length = read_full(file, &mut bytes, 0)?;
        if length < COMMON {
            return Ok(Err(CacheFault::Truncated));
        }
        match u32_at(&bytes, 16) {
            1 => first_version(file, &bytes[..COMMON], size),
            VERSION if length < HEADER => Ok(Err(CacheFault::Truncated)),
            VERSION => Ok(second_version(&bytes, size)),
            _ => Ok(Err(CacheFault::OtherVersion)),
        }
    }
}

/// The entries, and at the end a checksum of header and entries.
fn first_version(file: &File, header: &[u8], size: u64) -> io::Result<Result<Layout, CacheFault>> {
    let count = u64_at(header, 24);
    let length = count.checked_mul(LENGTH as u64);
    if length.and_then(|length| length.checked_add((COMMON + CHECKSUM) as u64)) != Some(size) {
        return Ok(Err(CacheFault::Truncated));
    }
    let end = size - CHECKSUM as u64;
    let mut checksum = [0; CHECKSUM];
    if read_full(file, &mut checksum, end)? < CHECKSUM {
        return Ok(Err(CacheFault::Truncated));
    }
    let entries = Section { at: COMMON as u64, length: end - COMMON as u64, before: header.to_vec(), checksum };
    let index = Section { at: end, length: 0, before: Vec::new(), checksum: *blake3::hash(&[]).as_bytes() };
    Ok(Ok(Layout { count, entries, index }))
}

fn second_version(header: &[u8; HEADER], size: u64) -> Result<Layout, CacheFault> {
    if blake3::hash(&header[..CHECKSUMS[2]]) != checksum_at(header, CHECKSUMS[2]) {
        return Err(CacheFault::Damaged);
    }
    let (count, index) = (u64_at(header, 24), u64_at(header, 32));
    let entries = count.checked_mul(LENGTH as u64).ok_or(CacheFault::Truncated)?;
    let index_at = entries.checked_add(HEADER as u64).ok_or(CacheFault::Truncated)?;
    if index_at.checked_add(index) != Some(size) {
        return Err(CacheFault::Truncated);
    }
    let section = |at, length, checksum| Section { at, length, before: Vec::new(), checksum };
    Ok(Layout {
        count,
        entries: section(HEADER as u64, entries, checksum_at(header, CHECKSUMS[0])),
        index: section(index_at, index, checksum_at(header, CHECKSUMS[1])),
    })
}

/// The header of a cache with so many entries and such an index.
pub(super) fn header(count: u64, entries: &blake3::Hasher, index_length: u64, index: &blake3::Hasher) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..16].copy_from_slice(&MAGIC);
    header[16..20].copy_from_slice(&VERSION.to_le_bytes());
    header[24..32].copy_from_slice(&count.to_le_bytes());
    header[32..40].copy_from_slice(&index_length.to_le_bytes());
    for (at, hasher) in CHECKSUMS.into_iter().zip([entries, index]) {
        header[at..at + CHECKSUM].copy_from_slice(hasher.finalize().as_bytes());
    }
    let own = blake3::hash(&header[..CHECKSUMS[2]]);
    header[CHECKSUMS[2]..].copy_from_slice(own.as_bytes());
    header
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn checksum_at(bytes: &[u8], at: usize) -> [u8; CHECKSUM] {
    bytes[at..].first_chunk().copied().unwrap_or_default()
}

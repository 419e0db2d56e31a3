//! The fixed parts of a manifest: its beginning and its footer. `docs/format.md` has them as tables.

use crate::error::{Error, ErrorKind};
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// The first eight bytes of every manifest.
const MAGIC: [u8; 8] = *b"pleachMF";
/// The last eight bytes of every manifest.
const END_MAGIC: [u8; 8] = *b"FMhcaelp";
/// The version that this program writes.
pub const VERSION: u32 = 3;
/// The oldest version that it reads.
pub(super) const OLDEST: u32 = 1;
/// Magic, version, the version's complement, the header's length.
pub(super) const PREFIX_LENGTH: usize = 20;
/// The footer's length.
pub(super) const FOOTER_LENGTH: usize = 112;
/// How many bytes of records fill a block, not counting the directory path at its beginning.
pub(super) const BLOCK_TARGET: usize = 64 * 1024;

/// A BLAKE3 digest.
pub(super) type Digest = [u8; 32];

/// The error for a manifest with a damaged `part`.
pub(super) fn damage(part: impl std::fmt::Display, path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Damage, format!("read the {part} of the manifest"))
        .at(path)
        .because(io::Error::new(io::ErrorKind::InvalidData, why))
}

/// The error for a part that could not be read. Unreadable data is damage like any other.
pub(super) fn unreadable(part: impl std::fmt::Display, path: &Path, cause: io::Error) -> Error {
    let is_lost = [Errno::IO, Errno::UCLEAN].iter().any(|lost| cause.raw_os_error() == Some(lost.raw_os_error()))
        || cause.kind() == io::ErrorKind::UnexpectedEof;
    let kind = if is_lost { ErrorKind::Damage } else { ErrorKind::Failed };
    Error::new(kind, format!("read the {part} of the manifest")).at(path).because(cause)
}

/// The bytes before the header.
pub(super) fn prefix(header_length: u32) -> [u8; PREFIX_LENGTH] {
    let mut out = [0; PREFIX_LENGTH];
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[12..16].copy_from_slice(&(!VERSION).to_le_bytes());
    out[16..].copy_from_slice(&header_length.to_le_bytes());
    out
}

/// Reads the bytes before the header and returns the version and the header's length.
pub(super) fn parse_prefix(bytes: &[u8; PREFIX_LENGTH], path: &Path) -> Result<(u32, u32), Error> {
    if bytes[..8] != MAGIC {
        return Err(damage("beginning", path, "it is not a manifest's"));
    }
    let (version, complement) = (u32_at(bytes, 8), u32_at(bytes, 12));
    if version != !complement {
        return Err(damage("beginning", path, "its version contradicts itself"));
    }
    if !(OLDEST..=VERSION).contains(&version) {
        return Err(Error::failed(format!(
            "read version {version} of the manifest format, only versions {OLDEST} to {VERSION}, in"
        ))
        .at(path)
        .hint("a newer pleach wrote it; use that one"));
    }
    Ok((version, u32_at(bytes, 16)))
}

/// The places of the parts behind the blocks, and the digests of everything that no block's digest covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) index_offset: u64,
    pub(super) index_length: u64,
    pub(super) totals_offset: u64,
    pub(super) totals_length: u64,
    pub(super) blocks: u64,
    pub(super) index_digest: Digest,
}

impl Footer {
    /// The digest over everything that is neither a block nor the index: the beginning with the header, the totals, and
    /// the footer's own fields.
    fn digest(fields: &[u8], beginning: &[u8], totals: &[u8]) -> Digest {
        *blake3::Hasher::new().update(beginning).update(totals).update(fields).finalize().as_bytes()
    }

    /// The footer as it is in the file.
    pub(super) fn encode(&self, beginning: &[u8], totals: &[u8]) -> [u8; FOOTER_LENGTH] {
        let mut out = [0; FOOTER_LENGTH];
        let numbers = [self.index_offset, self.index_length, self.totals_offset, self.totals_length, self.blocks];
        for (place, number) in out.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        out[40..72].copy_from_slice(&self.index_digest);
        let digest = Self::digest(&out[..72], beginning, totals);
        out[72..104].copy_from_slice(&digest);
        out[104..].copy_from_slice(&END_MAGIC);
        out
    }

    /// Reads the footer of a file of `length` bytes with a header that ends at `beginning_length`. [`Self::check`]
    /// compares its digest once the totals are read.
    pub(super) fn parse(
        bytes: &[u8; FOOTER_LENGTH],
        beginning_length: u64,
        length: u64,
        path: &Path,
    ) -> Result<Footer, Error> {
        if bytes[104..] != END_MAGIC {
            return Err(damage("end", path, "the file is cut short or was overwritten"));
        }
        let number = |at: usize| u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32;
        let mut index_digest = [0; 32];
        index_digest.copy_from_slice(&bytes[40..72]);
        let footer = Footer {
            index_offset: number(0),
            index_length: number(8),
            totals_offset: number(16),
            totals_length: number(24),
            blocks: number(32),
            index_digest,
        };
        let fits = footer.index_offset >= beginning_length
            && footer.index_offset.checked_add(footer.index_length) == Some(footer.totals_offset)
            && footer.totals_offset.checked_add(footer.totals_length) == Some(length - FOOTER_LENGTH as u64)
            && footer.blocks <= footer.index_length;
        if fits { Ok(footer) } else { Err(damage("end", path, "its offsets do not fit the file")) }
    }

    /// Compares the digest over the beginning, the totals and the footer.
    pub(super) fn check(
        bytes: &[u8; FOOTER_LENGTH],
        beginning: &[u8],
        totals: &[u8],
        path: &Path,
    ) -> Result<(), Error> {
        if bytes[72..104] == Self::digest(&bytes[..72], beginning, totals) {
            return Ok(());
        }
        Err(damage("header, totals or end", path, "their checksum is wrong"))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

//! A part of a file with a checksum. It is read by offset and in small pieces, as often as needed; each reader verifies
//! the checksum again, because another process may change the file at any time.

use crate::fs::pread::read_full;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

/// The length of a checksum (BLAKE3).
pub(super) const CHECKSUM: usize = 32;
/// The most bytes that are read at once.
pub(super) const BUFFER: usize = 256 << 10;

/// A part of a file.
#[derive(Clone, Debug)]
pub(super) struct Section {
    /// Where it begins.
    pub(super) at: u64,
    /// Its bytes.
    pub(super) length: u64,
    /// Bytes that the checksum covers before those of the section.
    pub(super) before: Vec<u8>,
    pub(super) checksum: [u8; CHECKSUM],
}

impl Section {
    /// Reads it from the beginning.
    pub(super) fn reader(&self, file: &Arc<File>) -> SectionReader {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.before);
        let (at, left) = (self.at, self.length);
        SectionReader { file: Arc::clone(file), at, left, hasher, checksum: self.checksum }
    }
}

/// Reads a part of a file. The last read fails with `InvalidData` if the checksum is wrong, and with `UnexpectedEof` if
/// the file is shorter by now.
#[derive(Debug)]
pub(in crate::dedupe) struct SectionReader {
    file: Arc<File>,
    at: u64,
    left: u64,
    hasher: blake3::Hasher,
    checksum: [u8; CHECKSUM],
}

impl SectionReader {
    /// How many bytes are left.
    pub(in crate::dedupe) fn left(&self) -> u64 {
        self.left
    }

    /// Reads the rest and verifies all of it.
    pub(super) fn verify(mut self) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER.min(usize::try_from(self.left).unwrap_or(BUFFER)).max(1)];
        while self.read(&mut buffer)? > 0 {}
        Ok(())
    }
}

impl Read for SectionReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len()).min(BUFFER);
        let got = read_full(&self.file, &mut buffer[..most], self.at)?;
        if got < most {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.hasher.update(&buffer[..got]);
        (self.at, self.left) = (self.at + got as u64, self.left - got as u64);
        if self.left == 0 && self.hasher.finalize() != self.checksum {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is damaged, or was changed meanwhile"));
        }
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(bytes: &[u8], before: &[u8]) -> Section {
        let checksum = *blake3::hash(&[before, bytes].concat()).as_bytes();
        Section { at: 3, length: bytes.len() as u64, before: before.to_vec(), checksum }
    }

    #[test]
    fn a_change_and_a_cut_are_noticed_by_the_last_read() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|number| (number >> 3) as u8).collect();
        crate::fs::pread::write_all(&file, &[b"abc", &bytes[..], b"behind"].concat(), 0).unwrap();
        let good = section(&bytes, b"header");
        let mut read = Vec::new();
        assert_eq!(good.reader(&file).left(), 1_000_000);
        good.reader(&file).read_to_end(&mut read).unwrap();
        assert_eq!(read, bytes);
        good.reader(&file).verify().unwrap();
        // All bytes are wanted and not one more: the checksum is verified nevertheless.
        let bad = Section { before: b"other".to_vec(), ..good.clone() };
        let error = bad.reader(&file).read_exact(&mut read).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        file.set_len(500_000).unwrap();
        assert_eq!(good.reader(&file).verify().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn an_empty_section_has_a_checksum_too() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        section(b"", b"header").reader(&file).verify().unwrap();
        let bad = Section { checksum: [7; CHECKSUM], ..section(b"", b"") };
        assert_eq!(bad.reader(&file).verify().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}

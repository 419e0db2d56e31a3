//! Tools of the fuzz targets: numbers and strings from the input, files in memory, and the sorting that checks need.
//!
//! A fuzz target is a function that takes any bytes. It panics if an invariant does not hold. `testing.rs` lists the
//! targets; each is in a file `fuzz.rs` beside its parser.

use super::compression::Packer;
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::io::Write as _;

/// The input of a target that needs several values. At its end all numbers are 0 and all strings are empty.
#[derive(Debug)]
pub(crate) struct Source<'b>(&'b [u8]);

impl<'b> Source<'b> {
    /// The values in these bytes.
    pub(crate) fn new(bytes: &'b [u8]) -> Source<'b> {
        Source(bytes)
    }

    /// Whether there are no more bytes.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// A number. The first byte decides about its form, so that small numbers, multiples of a block, and numbers close
    /// to the largest one are frequent.
    pub(crate) fn number(&mut self) -> u64 {
        let form = self.byte();
        let length = 1 << (form & 3);
        let number = (0..length).fold(0, |number, at| number | u64::from(self.byte()) << (8 * at));
        match form >> 2 & 3 {
            0 | 1 => number,
            2 => number.wrapping_shl(12),
            _ => !number,
        }
    }

    /// A string: its length in two bytes, and as many bytes as there are.
    pub(crate) fn bytes(&mut self) -> &'b [u8] {
        let length = usize::from(u16::from_le_bytes([self.byte(), self.byte()]));
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// All other bytes.
    pub(crate) fn rest(self) -> &'b [u8] {
        self.0
    }
}

/// A file in memory with this content.
pub(crate) fn file(content: &[u8]) -> File {
    let file = rustix::fs::memfd_create("fuzz", MemfdFlags::CLOEXEC).map(File::from);
    let mut file = file.expect("memory for a file");
    file.write_all(content).expect("memory for a file");
    std::io::Seek::rewind(&mut file).expect("the beginning of a file");
    file
}

/// These bytes, packed.
pub(crate) fn packed(raw: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    Packer::new(1).and_then(|mut packer| packer.pack(raw, &mut packed)).expect("memory");
    packed
}

/// Whether each element is less than the next one.
pub(crate) fn is_ascending<T: PartialOrd>(elements: &[T]) -> bool {
    elements.windows(2).all(|two| two[0] < two[1])
}

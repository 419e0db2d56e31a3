//! The form in which the scanner sees the blocks of files: all of their bytes, or a checksum of each block. [`Data`]
//! has the blocks. Pure.
//!
//! Equal checksums are only a sign of equal blocks: the kernel compares the bytes of each run before it shares them.

use crate::sys::btrfs::checksums::Sum;
use crate::util::digest::prefix;

/// The blocks of numbered files.
pub(super) trait Data {
    /// A file's size; `None` if it cannot be read.
    fn size(&mut self, file: u32) -> Option<u64>;
    /// Reads from an offset on, in the form of their scanner, until the buffer is full or the file ends; `None` if that
    /// fails. A partial block at the end has no checksum here.
    fn read(&mut self, file: u32, at: u64, buffer: &mut [u8]) -> Option<usize>;
    /// The same for the partial block at the end of a file, which begins at this offset.
    fn read_end(&mut self, file: u32, at: u64, buffer: &mut [u8]) -> Option<usize>;
}

/// The form of blocks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// Their bytes.
    Bytes {
        /// The length of a block.
        block: u64,
    },
    /// Their checksums.
    Sums {
        /// The length of a block.
        block: u64,
        /// The checksum of zeros.
        zero: Sum,
        /// Whether a block is looked up together with the block before it: among very many blocks, single checksums are
        /// often equal by chance.
        pairs: bool,
    },
}

impl Form {
    /// The length of a block, in bytes of the file.
    pub(super) fn block(&self) -> u64 {
        match *self {
            Form::Bytes { block } | Form::Sums { block, .. } => block,
        }
    }

    /// The length of a block in this form.
    pub(super) fn width(&self) -> usize {
        match *self {
            Form::Bytes { block } => block as usize,
            Form::Sums { .. } => size_of::<Sum>(),
        }
    }

    /// The length in this form of so many bytes of a file, from the beginning of a block on.
    pub(super) fn length(&self, bytes: u64) -> usize {
        match *self {
            Form::Bytes { .. } => bytes as usize,
            Form::Sums { block, .. } => bytes.div_ceil(block) as usize * size_of::<Sum>(),
        }
    }

    /// Whether a block has only zeros.
    pub(super) fn is_zero(&self, block: &[u8]) -> bool {
        match self {
            // Most blocks show at the first byte that they are not zeros.
            Form::Bytes { .. } => block.first() == Some(&0) && block.iter().fold(0, |all, byte| all | byte) == 0,
            Form::Sums { zero, .. } => block == zero,
        }
    }

    /// The checksum of a block in this form; `None` if the form has no checksums.
    pub(super) fn sum(&self, block: &[u8]) -> Option<Sum> {
        match self {
            Form::Bytes { .. } => None,
            Form::Sums { .. } => block.try_into().ok(),
        }
    }

    /// The hash by which a block is looked up: a hint of its content. `None` if the block before it is needed, and
    /// unknown.
    pub(super) fn hash(&self, before: Option<Sum>, block: &[u8]) -> Option<u64> {
        let hash = match self {
            Form::Sums { pairs: true, .. } => {
                let mut both = [0; 2 * size_of::<Sum>()];
                let (first, second) = both.split_at_mut(size_of::<Sum>());
                first.copy_from_slice(&before?);
                second.copy_from_slice(&self.sum(block)?);
                blake3::hash(&both)
            }
            Form::Bytes { .. } | Form::Sums { .. } => blake3::hash(block),
        };
        Some(prefix(hash.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_checksum_is_looked_up_with_the_one_before_it() {
        let (one, other) = ([1; 8], [2; 8]);
        let pairs = Form::Sums { block: 4096, zero: [0; 8], pairs: true };
        assert_eq!(pairs.hash(None, &one), None);
        assert_ne!(pairs.hash(Some(one), &other), pairs.hash(Some(other), &other));
        assert_ne!(pairs.hash(Some(one), &other), pairs.hash(Some(other), &one));
        let single = Form::Sums { block: 4096, zero: [0; 8], pairs: false };
        assert_eq!(single.hash(None, &one), single.hash(Some(other), &one));
    }
}

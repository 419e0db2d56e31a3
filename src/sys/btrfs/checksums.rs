//! The checksums that Btrfs keeps of file data: one for each block, found by the block's address, or computed in the
//! same way. Only root can find them. Compressed extents have checksums of the compressed bytes, and files without
//! checksums (`chattr +C`, `nodatasum`) have none.
//!
//! Sources: `include/uapi/linux/btrfs_tree.h`, `fs/btrfs/file-item.c`, `fs/btrfs/fs.c` (`btrfs_csum_data`).

use super::tree::{self, CSUM_TREE, EXTENT_CSUM, EXTENT_CSUMS, Item, Key, Step};
use rustix::io::Result;
use sha2::{Digest as _, Sha256};
use std::ops::Range;
use std::os::fd::AsFd;

/// The beginning of a checksum; a shorter checksum is followed by zeros.
pub(crate) type Sum = [u8; 8];

/// The format of a filesystem's checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    algorithm: Algorithm,
    /// Bytes of a block.
    sector: u64,
    /// Bytes of a leaf of the tree: no item is longer.
    node: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Crc32c,
    Xxhash,
    Sha256,
    Blake2,
}

impl Algorithm {
    /// The length of a checksum, in bytes.
    fn size(self) -> u16 {
        match self {
            Algorithm::Crc32c => 4,
            Algorithm::Xxhash => 8,
            Algorithm::Sha256 | Algorithm::Blake2 => 32,
        }
    }
}

impl Format {
    /// The format with these values of `struct btrfs_ioctl_fs_info_args`. `None` if pleach does not know it.
    pub(super) fn new(kind: u16, size: u16, sector: u32, node: u32) -> Option<Format> {
        let algorithm = match kind {
            0 => Algorithm::Crc32c,
            1 => Algorithm::Xxhash,
            2 => Algorithm::Sha256,
            3 => Algorithm::Blake2,
            _ => return None,
        };
        let is_sane = size == algorithm.size() && sector.is_power_of_two() && (512..=64 << 10).contains(&sector);
        is_sane.then_some(Format { algorithm, sector: sector.into(), node: node.into() })
    }

    /// Bytes of a block.
    pub(crate) fn block(&self) -> u64 {
        self.sector
    }

    /// Whether a checksum is so short that, among many blocks, some with different content have the same.
    pub(crate) fn is_short(&self) -> bool {
        usize::from(self.algorithm.size()) < size_of::<Sum>()
    }

    /// Computes the checksum of a whole block.
    pub(crate) fn compute(&self, block: &[u8]) -> Sum {
        match self.algorithm {
            Algorithm::Crc32c => begin(&crc32c::crc32c(block).to_le_bytes()),
            Algorithm::Xxhash => twox_hash::XxHash64::oneshot(0, block).to_le_bytes(),
            Algorithm::Sha256 => begin(&Sha256::digest(block)),
            Algorithm::Blake2 => begin(blake2b_simd::Params::new().hash_length(32).hash(block).as_bytes()),
        }
    }

    /// The most bytes of data that one item has the checksums of.
    fn reach(&self) -> u64 {
        self.node / u64::from(self.algorithm.size()) * self.sector
    }

    /// Passes the blocks of an item that begin in one of the ranges to `each`. The ranges are in order.
    pub(super) fn pick(&self, item: &Item<'_>, ranges: &[Range<u64>], each: &mut impl FnMut(u64, Sum)) {
        if (item.key.objectid, item.key.kind) != (EXTENT_CSUMS, EXTENT_CSUM) {
            return;
        }
        let size = usize::from(self.algorithm.size());
        let (start, sums) = (item.key.offset, item.data.len() / size);
        let address = |number: usize| start.saturating_add(number as u64 * self.sector);
        let ranges = &ranges[ranges.partition_point(|range| range.end <= start)..];
        for range in ranges.iter().take_while(|range| range.start < address(sums)) {
            let first = range.start.saturating_sub(start).div_ceil(self.sector) as usize;
            let blocks = (first..sums).map(|number| (address(number), number * size));
            for (block, at) in blocks.take_while(|(block, _)| *block < range.end) {
                each(block, begin(&item.data[at..at + size]));
            }
        }
    }
}

fn begin(bytes: &[u8]) -> Sum {
    let mut sum = Sum::default();
    bytes.iter().zip(&mut sum).for_each(|(byte, place)| *place = *byte);
    sum
}

/// Passes each block to `each` once, in ascending order. The kernel reads a tree in steps: if an item changes between
/// two of them, a later one can have blocks again that were passed already.
fn rising(mut each: impl FnMut(u64, Sum)) -> impl FnMut(u64, Sum) {
    let mut next = 0;
    move |address, sum| {
        if address >= next {
            next = address.saturating_add(1);
            each(address, sum);
        }
    }
}

/// Passes the address and the checksum of each block in these ranges of addresses to `each`, in order. The ranges must
/// be sorted and disjoint. Blocks without a checksum are skipped. `fd` is any file or directory of the filesystem.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`; `NOENT` if the tree does not exist.
pub(crate) fn find(fd: impl AsFd, format: &Format, ranges: &[Range<u64>], each: impl FnMut(u64, Sum)) -> Result<()> {
    let mut each = rising(each);
    // The items between two near ranges cost less than a search.
    for near in ranges.chunk_by(|one, next| next.start.saturating_sub(one.end) <= format.reach()) {
        let (Some(first), Some(last)) = (near.first(), near.last()) else { continue };
        // The item of the first block may begin before it.
        let from = Key::new(EXTENT_CSUMS, EXTENT_CSUM, first.start.saturating_sub(format.reach()));
        let to = Key::new(EXTENT_CSUMS, EXTENT_CSUM, last.end.saturating_sub(1));
        tree::search(&fd, CSUM_TREE, from, to, |item| {
            format.pick(&item, near, &mut each);
            Step::Next
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(kind: u16, size: u16) -> Format {
        Format::new(kind, size, 4096, 16384).unwrap()
    }

    #[test]
    fn checksums_are_those_of_the_kernel() {
        // The published check values of the four algorithms.
        assert_eq!(format(0, 4).compute(b"123456789"), [0x83, 0x92, 0x06, 0xe3, 0, 0, 0, 0]);
        assert_eq!(format(1, 8).compute(b""), 0xef46_db37_51d8_e999_u64.to_le_bytes());
        assert_eq!(format(2, 32).compute(b""), [0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14]);
        assert_eq!(format(3, 32).compute(b""), [0x0e, 0x57, 0x51, 0xc0, 0x26, 0xe5, 0x43, 0xb2]);
    }

    #[test]
    fn blocks_that_come_again_are_not_passed_again() {
        let mut passed = Vec::new();
        let mut each = rising(|address, sum| passed.push((address, sum[0])));
        for (number, address) in (0..).zip([0, 4096, 0, 4096, 8192, 8192, 20480]) {
            each(address, [number; 8]);
        }
        drop(each);
        assert_eq!(passed, [(0, 0), (4096, 1), (8192, 4), (20480, 6)]);
    }

    #[test]
    fn an_unknown_format_is_refused() {
        assert_eq!(Format::new(4, 4, 4096, 16384), None);
        assert_eq!(Format::new(0, 8, 4096, 16384), None);
        for sector in [0, 256, 5000, 1 << 17] {
            assert_eq!(Format::new(0, 4, sector, 16384), None);
        }
    }

    #[test]
    fn blocks_are_picked_from_items_that_begin_before_and_end_behind_the_ranges() {
        let data: Vec<u8> = (0..10_u32).flat_map(u32::to_le_bytes).collect();
        let pick = |data: &[u8], ranges: &[Range<u64>]| {
            let mut found = Vec::new();
            let item = Item { key: Key::new(EXTENT_CSUMS, EXTENT_CSUM, 100 * 4096), data };
            format(0, 4).pick(&item, ranges, &mut |block, sum| found.push((block / 4096, sum[0])));
            found
        };
        let blocks = |range: Range<u64>| range.start * 4096..range.end * 4096;
        let ranges = [blocks(50..102), blocks(103..104), blocks(108..200), blocks(300..301)];
        assert_eq!(pick(&data, &ranges), [(100, 0), (101, 1), (103, 3), (108, 8), (109, 9)]);
        // The length of an item is not a multiple of a checksum's.
        assert_eq!(pick(&data[..6], &[blocks(0..200)]), [(100, 0)]);
        assert_eq!(pick(&data, &[blocks(0..100), blocks(110..120)]), []);
    }
}

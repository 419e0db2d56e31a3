//! Reads the nodes of Btrfs's trees from the devices: `TREE_SEARCH_V2` returns the items of leaves, but not the
//! addresses of the leaves. A committed node is never overwritten before it is freed.
//!
//! Only profiles with whole copies on a device are supported (single, DUP, RAID1): not RAID0, RAID10, RAID5 and RAID6.
//! Nothing that is read is trusted: a node must have the expected address, generation and level.
//!
//! Source: `include/uapi/linux/btrfs_tree.h` (`struct btrfs_chunk`, `struct btrfs_header`, `struct btrfs_key_ptr`).

use super::device::Volume;
use crate::fs::direct_io::Aligned;
use crate::fs::pread::read_full;
use crate::sys::btrfs::tree::{self, CHUNK_ITEM, CHUNK_TREE, Key, Step};
use crate::sys::btrfs::{self, device};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// `BTRFS_BLOCK_GROUP_DATA`.
const DATA: u64 = 1 << 0;
const RAID0: u64 = 1 << 3;
const RAID1: u64 = 1 << 4;
const DUP: u64 = 1 << 5;
const RAID10: u64 = 1 << 6;
const RAID5: u64 = 1 << 7;
const RAID6: u64 = 1 << 8;
const RAID1C3: u64 = 1 << 9;
const RAID1C4: u64 = 1 << 10;

/// The size of `struct btrfs_header`, which precedes the pointers in a node.
const HEADER: usize = 101;
/// The size of `struct btrfs_key_ptr`: a key, an address, a generation.
const POINTER: usize = 33;
/// The size of `struct btrfs_item`: a key, an offset and a size.
const PLACE: usize = 25;
/// The largest node of any filesystem.
const LARGEST: usize = 64 << 10;

/// The address of a tree block, and the transaction that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pointer {
    pub(super) address: u64,
    pub(super) generation: u64,
}

/// A range of addresses, and its place on a device.
#[derive(Debug)]
struct Chunk {
    start: u64,
    length: u64,
    profile: u64,
    device: u64,
    offset: u64,
}

/// The nodes of a filesystem.
#[derive(Debug)]
pub(super) struct Nodes {
    /// The size of a node and of a leaf.
    size: usize,
    chunks: Vec<Chunk>,
    devices: HashMap<u64, OwnedFd>,
    /// The copies of data on the disk. The kernel divides the space that df(1) shows by this number.
    data_copies: u64,
}

impl Nodes {
    /// Opens the devices of a volume.
    ///
    /// # Errors
    /// `ACCESS` or `NOENT` if the devices are out of reach, as in a container.
    pub(super) fn open(volume: &Volume) -> Result<Nodes> {
        let size = btrfs::node_size(&volume.fd)? as usize;
        if !(4096..=LARGEST).contains(&size) || !size.is_power_of_two() {
            return Err(Errno::INVAL);
        }
        let (mut chunks, mut data_copies) = (Vec::new(), 1);
        tree::search(&volume.fd, CHUNK_TREE, Key::default(), Key::MAX, |item| {
            let place = || {
                let (length, profile) = (item.u64(0)?, item.u64(24)?);
                Some(Chunk { start: item.key.offset, length, profile, device: item.u64(48)?, offset: item.u64(56)? })
            };
            if item.key.kind == CHUNK_ITEM
                && let Some(chunk) = place()
            {
                if chunk.profile & DATA != 0 {
                    data_copies = data_copies.max(copies(chunk.profile).unwrap_or(1));
                }
                chunks.push(chunk);
            }
            Step::Next
        })?;
        let mut devices = HashMap::new();
        for chunk in chunks.iter().filter(|chunk| chunk.profile & !DATA != 0) {
            if let std::collections::hash_map::Entry::Vacant(place) = devices.entry(chunk.device) {
                place.insert(open_device(volume, chunk.device)?);
            }
        }
        Ok(Nodes { size, chunks, devices, data_copies })
    }

    /// The size of a node.
    pub(super) fn size(&self) -> u64 {
        self.size as u64
    }

    /// The bytes that a node or leaf at this address takes of the space that df(1) shows.
    ///
    /// # Errors
    /// `OPNOTSUPP` for RAID5 and RAID6.
    pub(super) fn disk_bytes(&self, address: u64) -> Result<u64> {
        let chunk = self.chunk(address).ok_or(Errno::RANGE)?;
        Ok(self.size() * copies(chunk.profile).ok_or(Errno::OPNOTSUPP)? / self.data_copies)
    }

    /// The bytes for items in a leaf.
    pub(super) fn room(&self) -> u64 {
        (self.size - HEADER) as u64
    }

    /// The blocks to which a node refers.
    ///
    /// # Errors
    /// `STALE` if another block is there.
    pub(super) fn children(&self, node: Pointer, level: u8) -> Result<Vec<Pointer>> {
        Ok(self.children_with_keys(node, level)?.into_iter().map(|(_, child)| child).collect())
    }

    /// The same, with the object of the first key of each.
    ///
    /// # Errors
    /// `STALE` if another block is there.
    pub(super) fn children_with_keys(&self, node: Pointer, level: u8) -> Result<Vec<(u64, Pointer)>> {
        parse(self.read(node)?.bytes(), node, level).ok_or(Errno::STALE)
    }

    /// The bytes that the items of a leaf use.
    ///
    /// # Errors
    /// `STALE` if another block is there.
    pub(super) fn used(&self, leaf: Pointer) -> Result<u64> {
        used(self.read(leaf)?.bytes(), leaf).ok_or(Errno::STALE)
    }

    fn read(&self, node: Pointer) -> Result<Aligned> {
        let chunk = self.chunk(node.address).ok_or(Errno::RANGE)?;
        if chunk.profile & (RAID0 | RAID10 | RAID5 | RAID6) != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        let device = self.devices.get(&chunk.device).ok_or(Errno::NODEV)?;
        let at = chunk.offset.checked_add(node.address - chunk.start).ok_or(Errno::RANGE)?;
        let mut buffer = Aligned::take(self.size);
        if read_full(device, buffer.bytes_mut(), at)? < self.size {
            return Err(Errno::IO);
        }
        Ok(buffer)
    }

    fn chunk(&self, address: u64) -> Option<&Chunk> {
        let behind = self.chunks.partition_point(|chunk| chunk.start <= address);
        let chunk = self.chunks.get(behind.checked_sub(1)?)?;
        let end = (address - chunk.start).checked_add(self.size())?;
        (end <= chunk.length).then_some(chunk)
    }
}

/// The copies that a profile keeps. `None` for parity.
fn copies(profile: u64) -> Option<u64> {
    match profile {
        _ if profile & (RAID5 | RAID6) != 0 => None,
        _ if profile & RAID1C4 != 0 => Some(4),
        _ if profile & RAID1C3 != 0 => Some(3),
        _ if profile & (DUP | RAID1 | RAID10) != 0 => Some(2),
        _ => Some(1),
    }
}

fn open_device(volume: &Volume, number: u64) -> Result<OwnedFd> {
    let path = device::path(&volume.fd, number)?;
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let fd = rustix::fs::open(&path, flags, Mode::empty())?;
    match FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) {
        FileType::BlockDevice => Ok(fd),
        _ => Err(Errno::NOTBLK),
    }
}

/// The number of items or pointers in a block. `None` if it is not the expected one.
fn count(block: &[u8], node: Pointer, level: u8) -> Option<usize> {
    let is_expected =
        u64_at(block, 48)? == node.address && u64_at(block, 80)? == node.generation && *block.get(100)? == level;
    is_expected.then_some(u32_at(block, 96)? as usize)
}

/// The pointers in a node, with the object of the first key of each. `None` if it is not the expected one.
pub(super) fn parse(block: &[u8], node: Pointer, level: u8) -> Option<Vec<(u64, Pointer)>> {
    let count = count(block, node, level).filter(|count| *count <= (block.len() - HEADER) / POINTER)?;
    let pointer = |number: usize| {
        let at = HEADER + number * POINTER;
        Some((u64_at(block, at)?, Pointer { address: u64_at(block, at + 17)?, generation: u64_at(block, at + 25)? }))
    };
    (0..count).map(pointer).collect()
}

/// The bytes that the items of a leaf use: their places from its beginning, and their content from its end.
pub(super) fn used(block: &[u8], leaf: Pointer) -> Option<u64> {
    let room = block.len() - HEADER;
    let count = count(block, leaf, 0).filter(|count| *count <= room / PLACE)?;
    let content = match count.checked_sub(1) {
        Some(last) => room.checked_sub(u32_at(block, HEADER + last * PLACE + 17)? as usize)?,
        None => 0,
    };
    Some((count * PLACE + content) as u64)
}

fn u64_at(block: &[u8], at: usize) -> Option<u64> {
    block.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

fn u32_at(block: &[u8], at: usize) -> Option<u32> {
    block.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(count: u32) -> Vec<u8> {
        let mut block = vec![0; 4096];
        block[48..56].copy_from_slice(&7_u64.to_le_bytes());
        block[80..88].copy_from_slice(&9_u64.to_le_bytes());
        block[96..100].copy_from_slice(&count.to_le_bytes());
        block[100] = 1;
        block[HEADER..HEADER + 8].copy_from_slice(&3_u64.to_le_bytes());
        block[HEADER + 17..HEADER + 25].copy_from_slice(&11_u64.to_le_bytes());
        block[HEADER + 25..HEADER + 33].copy_from_slice(&5_u64.to_le_bytes());
        block
    }

    #[test]
    fn only_the_expected_node_is_parsed() {
        let expected = Pointer { address: 7, generation: 9 };
        let found = parse(&node(1), expected, 1);
        assert_eq!(found, Some(vec![(3, Pointer { address: 11, generation: 5 })]));
        assert_eq!(parse(&node(1), Pointer { generation: 8, ..expected }, 1), None);
        assert_eq!(parse(&node(1), Pointer { address: 8, ..expected }, 1), None);
        assert_eq!(parse(&node(1), expected, 2), None);
    }

    #[test]
    fn a_leaf_uses_the_places_and_the_contents_of_its_items() {
        let expected = Pointer { address: 7, generation: 9 };
        let mut leaf = node(2);
        leaf[100] = 0;
        // The second item has its content before that of the first one.
        leaf[HEADER + 25 + 17..HEADER + 25 + 21].copy_from_slice(&(4096 - 101 - 300_u32).to_le_bytes());
        assert_eq!(used(&leaf, expected), Some(2 * 25 + 300));
        leaf[HEADER + 25 + 17..HEADER + 25 + 21].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(used(&leaf, expected), None);
        assert_eq!(used(&node(2), expected), None, "it is not a leaf");
    }

    #[test]
    fn a_garbled_node_has_no_pointers() {
        let expected = Pointer { address: 7, generation: 9 };
        assert_eq!(parse(&node(u32::MAX), expected, 1), None);
        assert_eq!(parse(&node(1)[..99], expected, 1), None);
    }
}

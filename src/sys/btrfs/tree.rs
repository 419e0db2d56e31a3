//! `BTRFS_IOC_TREE_SEARCH_V2`: the items of Btrfs's trees in the order of their keys. Only for root.
//!
//! Here are keys, bytes, and ways to skip unwanted items. The callers interpret the items.
//!
//! Sources: `include/uapi/linux/btrfs.h`, `include/uapi/linux/btrfs_tree.h`, `fs/btrfs/ioctl.c`.

use rustix::io::{Errno, Result};
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode, opcode};
use std::cell::Cell;
use std::ffi::c_void;
use std::os::fd::AsFd;

const BTRFS_IOC_TREE_SEARCH_V2: Opcode = opcode::read_write::<Request>(0x94, 17);
const _: () = assert!(BTRFS_IOC_TREE_SEARCH_V2 == 0xc070_9411);

/// The tree of the roots of all trees.
pub(crate) const ROOT_TREE: u64 = 1;
/// The tree of the allocated extents and the references to them.
pub(crate) const EXTENT_TREE: u64 = 2;
/// The tree of the chunks, which assigns places on devices to addresses.
pub(crate) const CHUNK_TREE: u64 = 3;
/// The tree of the checksums of file data: see [`checksums`](super::checksums).
pub(crate) const CSUM_TREE: u64 = 7;

/// `BTRFS_INODE_ITEM_KEY`: an inode's status.
pub(crate) const INODE_ITEM: u8 = 1;
/// `BTRFS_INODE_REF_KEY`: names of an inode in a directory. The offset of the key is the directory.
pub(crate) const INODE_REF: u8 = 12;
/// `BTRFS_INODE_EXTREF_KEY`: names of an inode that do not fit into `BTRFS_INODE_REF_KEY`.
pub(crate) const INODE_EXTREF: u8 = 13;
/// `BTRFS_DIR_INDEX_KEY`: an entry of a directory.
pub(crate) const DIR_INDEX: u8 = 96;
/// `BTRFS_EXTENT_DATA_KEY`: content of a file. The offset of the key is the offset in the file: see
/// [`FileExtent`](super::FileExtent).
pub(crate) const EXTENT_DATA: u8 = 108;
/// `BTRFS_ORPHAN_OBJECTID` and `BTRFS_ORPHAN_ITEM_KEY`: a deleted tree, by its number in the offset of the key, until
/// its space is free.
pub(crate) const ORPHANS: u64 = 0_u64.wrapping_sub(5);
pub(crate) const ORPHAN_ITEM: u8 = 48;
/// `BTRFS_EXTENT_CSUM_OBJECTID` and `BTRFS_EXTENT_CSUM_KEY`: the checksums of adjacent blocks. The offset of the key is
/// the address of the first block.
pub(crate) const EXTENT_CSUMS: u64 = 0_u64.wrapping_sub(10);
pub(crate) const EXTENT_CSUM: u8 = 128;
/// `BTRFS_ROOT_ITEM_KEY`: a tree.
pub(crate) const ROOT_ITEM: u8 = 132;
/// `BTRFS_EXTENT_ITEM_KEY`: an extent. Its key has its address, this type, and its length.
pub(crate) const EXTENT_ITEM: u8 = 168;
/// `BTRFS_METADATA_ITEM_KEY`: a block of a tree. Its key has its address, this type, and its level.
pub(crate) const METADATA_ITEM: u8 = 169;
/// `BTRFS_EXTENT_OWNER_REF_KEY`: the tree for which an extent was created.
pub(crate) const EXTENT_OWNER_REF: u8 = 172;
/// `BTRFS_EXTENT_DATA_REF_KEY`: references to an extent from a file.
pub(crate) const EXTENT_DATA_REF: u8 = 178;
/// `BTRFS_SHARED_DATA_REF_KEY`: references to an extent from a leaf.
pub(crate) const SHARED_DATA_REF: u8 = 184;
/// `BTRFS_CHUNK_ITEM_KEY`: a chunk. Its key has the address of its first byte.
pub(crate) const CHUNK_ITEM: u8 = 228;

/// The key of an item. Trees are sorted by key, field by field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// The owner of the item: an inode number, or the address of an extent.
    pub objectid: u64,
    /// The type of the item (`BTRFS_…_KEY`).
    pub kind: u8,
    /// Depends on the type: an offset in a file, or the length of an extent.
    pub offset: u64,
}

impl Key {
    /// The largest possible key.
    pub(crate) const MAX: Key = Key { objectid: u64::MAX, kind: u8::MAX, offset: u64::MAX };

    /// A key with these parts.
    pub(crate) const fn new(objectid: u64, kind: u8, offset: u64) -> Key {
        Key { objectid, kind, offset }
    }

    /// The first key that an object can have.
    pub(crate) const fn first_of(objectid: u64) -> Key {
        Key::new(objectid, 0, 0)
    }

    /// The last key that an object can have.
    pub(crate) const fn last_of(objectid: u64) -> Key {
        Key::new(objectid, u8::MAX, u64::MAX)
    }

    /// The next key. `None` after the last.
    fn next(self) -> Option<Key> {
        if let Some(offset) = self.offset.checked_add(1) {
            return Some(Key { offset, ..self });
        }
        if let Some(kind) = self.kind.checked_add(1) {
            return Some(Key { kind, offset: 0, ..self });
        }
        self.objectid.checked_add(1).map(Key::first_of)
    }
}

/// An item of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    /// Its key.
    pub key: Key,
    /// Its content, little-endian and unaligned.
    pub data: &'a [u8],
}

impl Item<'_> {
    /// The 64-bit number at `at`. `None` if the item is too short.
    pub(crate) fn u64(&self, at: usize) -> Option<u64> {
        self.data.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// The 32-bit number at `at`. `None` if the item is too short.
    pub(crate) fn u32(&self, at: usize) -> Option<u32> {
        self.data.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// The byte at `at`. `None` if the item is too short.
    pub(crate) fn u8(&self, at: usize) -> Option<u8> {
        self.data.get(at).copied()
    }
}

/// What to read after an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The next item.
    Next,
    /// The first item at or after this key. A key that was passed already means the next item.
    Seek(Key),
    /// Nothing.
    Stop,
}

/// `struct btrfs_ioctl_search_args_v2` without its trailing buffer.
#[repr(C)]
#[derive(Default)]
struct Request {
    tree_id: u64,
    min_objectid: u64,
    max_objectid: u64,
    min_offset: u64,
    max_offset: u64,
    min_transid: u64,
    max_transid: u64,
    min_type: u32,
    max_type: u32,
    nr_items: u32,
    unused: [u32; 9],
    buf_size: u64,
}

const _: () = assert!(size_of::<Request>() == 112);

/// `struct btrfs_ioctl_search_header`, which precedes each item in the buffer: transid, objectid, offset, type, len.
const ITEM_HEADER: usize = 32;
/// The largest possible item is smaller than the largest node of a tree.
const LARGEST_ITEM: usize = 64 << 10;
/// The most bytes that one call returns: some thousands of items.
const BUFFER: usize = 256 << 10;
const _: () = assert!(BUFFER > LARGEST_ITEM + ITEM_HEADER);

/// A call after a jump fetches few items, because the next jump may be near.
const FEWEST: u32 = 32;
/// If a call did not end with a jump, the next call fetches more items, up to this.
const MOST: u32 = 1 << 16;

#[repr(C)]
pub(super) struct Buffer {
    request: Request,
    pub(super) items: [u8; BUFFER],
}

const _: () = assert!(std::mem::offset_of!(Buffer, items) == size_of::<Request>());

impl Buffer {
    pub(super) fn new() -> Box<Buffer> {
        Box::new(Buffer { request: Request::default(), items: [0; BUFFER] })
    }
}

struct Call<'a>(&'a mut Buffer);

// SAFETY: the number is BTRFS_IOC_TREE_SEARCH_V2's, and the pointer points to its arguments, followed by the buffer of
// `buf_size` bytes.
unsafe impl Ioctl for Call<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        BTRFS_IOC_TREE_SEARCH_V2
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> Result<()> {
        Ok(())
    }
}

/// Passes the items of `tree` from `from` to `to` (inclusive) to `each`, in the order of their keys, until `each`
/// stops. `fd` is any file or directory of the filesystem. Memory: one buffer of 256 KiB, which the thread keeps.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`, `NOTTY` on another filesystem, `NOENT` if the tree does not exist.
#[doc(alias = "BTRFS_IOC_TREE_SEARCH_V2")]
pub(crate) fn search(fd: impl AsFd, tree: u64, from: Key, to: Key, each: impl FnMut(Item<'_>) -> Step) -> Result<()> {
    search_since(fd, (tree, 0), from, to, each)
}

/// [`search`] that reads only leaves of a tree that were written in the transaction `since` or later. The other parts
/// of the tree are not even read from the disk. A leaf that was written may have any items: a balance writes it too.
///
/// # Errors
/// Like [`search`].
pub(crate) fn search_since(
    fd: impl AsFd,
    (tree, since): (u64, u64),
    from: Key,
    to: Key,
    mut each: impl FnMut(Item<'_>) -> Step,
) -> Result<()> {
    thread_local! {
        static KEPT: Cell<Option<Box<Buffer>>> = const { Cell::new(None) };
    }
    // Most searches find a few items. Clearing a buffer for each would cost more than the call.
    let mut buffer = KEPT.take().unwrap_or_else(Buffer::new);
    let place = (tree, since);
    let result =
        search_into(&mut buffer, |buffer, from, most| fetch(&fd, buffer, place, from, to, most), from, to, &mut each);
    KEPT.set(Some(buffer));
    result
}

/// [`search`] with another call: `fetch` fills the buffer with this many of the items from a key on, and returns their
/// number.
pub(super) fn search_into(
    buffer: &mut Buffer,
    mut fetch: impl FnMut(&mut Buffer, Key, u32) -> Result<u32>,
    from: Key,
    to: Key,
    each: &mut impl FnMut(Item<'_>) -> Step,
) -> Result<()> {
    let (mut from, mut most) = (from, FEWEST);
    loop {
        let (begin, found) = (from, fetch(buffer, from, most)?);
        let mut items = Items { rest: &buffer.items, left: found };
        let (mut last, mut jumped) = (None, false);
        for item in &mut items {
            last = Some(item.key);
            if item.key < from || item.key > to {
                continue;
            }
            match each(item) {
                Step::Next => jumped = false,
                Step::Seek(key) => {
                    jumped = key > item.key;
                    from = from.max(key);
                }
                Step::Stop => return Ok(()),
            }
        }
        // A call that found nothing, or returned wrong data, is the last one.
        let next = last.filter(|last| *last >= begin).and_then(Key::next);
        let Some(next) = next.filter(|next| *next <= to) else { return Ok(()) };
        most = if jumped && from > next { FEWEST } else { (most * 4).min(MOST) };
        from = from.max(next);
        if from > to {
            return Ok(());
        }
    }
}

/// Makes one call. Returns the number of items.
fn fetch(fd: impl AsFd, buffer: &mut Buffer, (tree, since): (u64, u64), from: Key, to: Key, most: u32) -> Result<u32> {
    buffer.request = Request {
        tree_id: tree,
        min_objectid: from.objectid,
        max_objectid: to.objectid,
        min_offset: from.offset,
        max_offset: to.offset,
        min_transid: since,
        max_transid: u64::MAX,
        min_type: from.kind.into(),
        max_type: to.kind.into(),
        nr_items: most,
        unused: [0; 9],
        buf_size: BUFFER as u64,
    };
    loop {
        // SAFETY: the buffer has the `buf_size` bytes that the request announces.
        match unsafe { ioctl::ioctl(&fd, Call(buffer)) } {
            Ok(()) => return Ok(buffer.request.nr_items),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// The items in a buffer.
struct Items<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (header, rest) = self.rest.split_at_checked(ITEM_HEADER)?;
        let u64 = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let u32 = |at: usize| header[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let (data, rest) = rest.split_at_checked(u32(28) as usize)?;
        self.rest = rest;
        let key = Key::new(u64(8), u8::try_from(u32(24)).ok()?, u64(16));
        Some(Item { key, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_through_their_three_parts() {
        assert_eq!(Key::new(1, 2, 3).next(), Some(Key::new(1, 2, 4)));
        assert_eq!(Key::new(1, 2, u64::MAX).next(), Some(Key::new(1, 3, 0)));
        assert_eq!(Key::last_of(1).next(), Some(Key::first_of(2)));
        assert_eq!(Key::MAX.next(), None);
    }

    #[test]
    fn a_garbled_buffer_yields_no_item_beyond_its_end() {
        let mut bytes = vec![0; ITEM_HEADER + 4];
        bytes[28..32].copy_from_slice(&4u32.to_ne_bytes());
        assert_eq!(Items { rest: &bytes, left: 1 }.count(), 1);
        assert_eq!(Items { rest: &bytes, left: 9 }.count(), 1);
        bytes[28..32].copy_from_slice(&5u32.to_ne_bytes());
        assert_eq!(Items { rest: &bytes, left: 1 }.count(), 0);
    }
}

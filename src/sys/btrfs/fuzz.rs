//! A fuzz target for the items of trees.

use super::checksums::Format;
use super::file_extent::FileExtent;
use super::inode::{Inode, entry, next_name};
use super::tree::{Buffer, EXTENT_CSUM, EXTENT_CSUMS, INODE_EXTREF, INODE_REF, Item, Key, Step, search_into};
use crate::util::fuzz::Source;

/// A kernel that replies with any items: for each call their number, and a string with their bytes.
pub(crate) fn tree_search(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let (jumps, one, other) = (source.byte(), key(&mut source), key(&mut source));
    let (first, last) = (one.min(other), one.max(other));
    let mut buffer = Buffer::new();
    let (mut passed, mut calls) = (0, 0);
    let fetch = |buffer: &mut Buffer, from: Key, most: u32| {
        calls += 1;
        assert!(from >= first && from <= last && most > 0);
        let found = u32::from(source.byte());
        let reply = source.bytes();
        buffer.items[..reply.len()].copy_from_slice(reply);
        Ok(found)
    };
    let mut wanted = first;
    let result = search_into(&mut buffer, fetch, first, last, &mut |item| {
        assert!(item.key >= wanted && item.key <= last, "an item that is not wanted");
        read(&item);
        passed += 1;
        match jumps & 7 {
            7 if passed > 3 => Step::Stop,
            1..7 if passed % u32::from(jumps & 7) == 0 => {
                wanted = Key { offset: item.key.offset.saturating_add(u64::from(jumps >> 3)), ..item.key };
                Step::Seek(wanted)
            }
            _ => Step::Next,
        }
    });
    // Without more bytes, replies are empty, and the search ends.
    assert!(result.is_ok() && calls <= bytes.len() + 2);
}

fn key(source: &mut Source<'_>) -> Key {
    Key::new(source.number(), source.byte(), source.number())
}

/// Reads an item as everything that items can be.
fn read(item: &Item<'_>) {
    if let Some(FileExtent::Inline(length)) = FileExtent::read(item) {
        assert!(length < item.data.len() as u64);
    }
    let _ = (Inode::of(item), entry(item));
    for kind in [INODE_REF, INODE_EXTREF] {
        let (mut rest, mut length) = (item.data, 0);
        while let Some((_, name, behind)) = next_name(Key { kind, ..item.key }, rest) {
            length += name.len();
            assert!(behind.len() < rest.len());
            rest = behind;
        }
        assert!(length <= item.data.len());
    }
    for (kind, size) in [(0, 4), (1, 8), (2, 32)] {
        let Some(format) = Format::new(kind, size, 4096, 16384) else { continue };
        let sums = Item { key: Key::new(EXTENT_CSUMS, EXTENT_CSUM, item.key.offset), data: item.data };
        let start = item.key.offset;
        let ranges = [start.saturating_sub(5000)..start.saturating_add(4096), start.saturating_add(8192)..u64::MAX];
        let mut last = None;
        format.pick(&sums, &ranges, &mut |block, _| {
            assert!(last.is_none_or(|last| last <= block) && ranges.iter().any(|range| range.contains(&block)));
            last = Some(block);
        });
    }
}

//! The index of a manifest: the place, the digest and the first record of each block.

use super::layout::Digest;
use super::limits;
use super::order::{compare_paths, is_name};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

#[cfg(test)]
thread_local! {
    /// How many lookups this thread has done.
    static LOOKUPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many lookups by path this thread has done, in any manifest.
#[cfg(test)]
pub(crate) fn lookups() -> u64 {
    LOOKUPS.get()
}

/// One record of the index, as it is in the file. It has no offsets, because blocks lie one behind the other.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct IndexRecord<'a> {
    /// The block's size in the file, in bytes.
    pub(super) stored: u32,
    /// Its unpacked size, in bytes.
    pub(super) raw: u32,
    /// BLAKE3 of its bytes in the file.
    pub(super) digest: Digest,
    /// How many first bytes its directory's path shares with the path of the block before.
    pub(super) shared: u32,
    /// The rest of that path.
    #[serde(borrow, with = "serde_bytes")]
    pub(super) suffix: &'a [u8],
    /// The name of its first record if that is an entry; empty if it is a directory.
    #[serde(borrow, with = "serde_bytes")]
    pub(super) name: &'a [u8],
}

/// Where a block is.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) stored: u32,
    pub(super) raw: u32,
    pub(super) digest: Digest,
    /// The beginning of its key in the arena, and the lengths of the key's two parts.
    key: usize,
    path_length: u32,
    name_length: u32,
}

/// The index in memory: about 72 bytes a block and its key.
#[derive(Debug, Default)]
pub(super) struct Index {
    places: Vec<Place>,
    keys: Vec<u8>,
}

impl Index {
    /// Reads an index of `blocks` records. Its blocks must fill the file from `start` to `end`. `None` if it
    /// contradicts itself.
    pub(super) fn parse(mut bytes: &[u8], blocks: u64, start: u64, end: u64) -> Option<Index> {
        let mut index = Index::default();
        let mut offset = start;
        for number in 0..blocks {
            let (record, rest) = postcard::take_from_bytes::<IndexRecord<'_>>(bytes).ok()?;
            bytes = rest;
            let key = index.keys.len();
            let shared = record.shared as usize;
            index.reserve(shared.checked_add(record.suffix.len())?.checked_add(record.name.len())?)?;
            if shared > 0 {
                let before = index.places.last()?;
                if shared > before.path_length as usize {
                    return None;
                }
                index.keys.extend_from_within(before.key..before.key + shared);
            }
            index.keys.extend_from_slice(record.suffix);
            let path_length = u32::try_from(index.keys.len() - key).ok()?;
            index.keys.extend_from_slice(record.name);
            let name_length = u32::try_from(record.name.len()).ok()?;
            let well_named = if record.name.is_empty() { true } else { number > 0 && is_name(record.name) };
            if !well_named {
                return None;
            }
            let place = Place {
                offset,
                stored: record.stored,
                raw: record.raw,
                digest: record.digest,
                key,
                path_length,
                name_length,
            };
            // The memory is already reserved.
            index.places.push(place);
            if number > 0 {
                let (path, name) = index.key(number as usize);
                if index.compare(number as usize - 1, path, name) != Ordering::Less {
                    return None;
                }
            }
            offset = offset.checked_add(u64::from(record.stored))?;
        }
        (bytes.is_empty() && offset == end).then_some(index)
    }

    /// Reserves memory for a further key of this length. `None` if there is no memory or the keys would exceed their
    /// limit.
    fn reserve(&mut self, length: usize) -> Option<()> {
        let fits = self.keys.len().checked_add(length)? <= limits::KEYS;
        (fits && self.keys.try_reserve(length).is_ok() && self.places.try_reserve(1).is_ok()).then_some(())
    }

    /// How many blocks there are.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Where a block is.
    pub(super) fn place(&self, number: usize) -> &Place {
        &self.places[number]
    }

    /// A block's first record: its directory, and its name (empty if it is the directory itself).
    pub(super) fn key(&self, number: usize) -> (&[u8], &[u8]) {
        let place = &self.places[number];
        let path = place.key + place.path_length as usize;
        (&self.keys[place.key..path], &self.keys[path..path + place.name_length as usize])
    }

    fn compare(&self, number: usize, path: &[u8], name: &[u8]) -> Ordering {
        let key = self.key(number);
        compare_paths(key.0, path).then_with(|| key.1.cmp(name))
    }

    /// The last block that begins at or before a record; without such a block, the first one. An empty name means the
    /// directory itself.
    pub(super) fn find(&self, path: &[u8], name: &[u8]) -> usize {
        #[cfg(test)]
        LOOKUPS.set(LOOKUPS.get() + 1);
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.compare(middle, path, name) {
                Ordering::Greater => high = middle,
                _ => low = middle + 1,
            }
        }
        low.saturating_sub(1)
    }
}

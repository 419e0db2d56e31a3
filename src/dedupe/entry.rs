//! One entry of the cache: 64 bytes, written down in `docs/dedupe.md`. Pure, no I/O.

use super::catalogue::Record;
use super::facts::{Facts, short};
use std::num::NonZeroU64;

/// The length of an entry in bytes.
pub(super) const LENGTH: usize = 64;

/// The identity of a file and of its present version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(pub(super) [u8; 16]);

impl Key {
    /// The key of a file as the walk saw it: a hash of filesystem, subvolume, inode, size, mtime and ctime.
    pub(super) fn of(volume: &[u8; 16], subvolume: u64, record: &Record) -> Key {
        let mut hasher = blake3::Hasher::new();
        hasher.update(volume);
        let (mtime, ctime) = (record.mtime(), record.ctime());
        for number in [subvolume, record.ino, record.size, mtime.seconds as u64, ctime.seconds as u64] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(&mtime.nanos.to_le_bytes());
        hasher.update(&ctime.nanos.to_le_bytes());
        Key::finish(&hasher)
    }

    /// The key from a hasher's result.
    pub(super) fn finish(hasher: &blake3::Hasher) -> Key {
        let mut key = [0; 16];
        hasher.finalize_xof().fill(&mut key);
        Key(key)
    }

    /// The short form by which one entry refers to another.
    pub(super) fn identity(&self) -> NonZeroU64 {
        let mut long = [0; 32];
        long[..16].copy_from_slice(&self.0);
        short(&long)
    }
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) facts: Facts,
    /// The number of runs since one met the file.
    pub(super) age: u8,
}

const SHARED: u8 = 1;
const ENCODED: u8 = 2;
const NOCOW: u8 = 4;
const WAS_EQUAL: u8 = 8;
const FIXED: u8 = 16;
const INLINE: u8 = 32;
const MOVED: u8 = 64;

impl Entry {
    pub(super) fn to_bytes(self) -> [u8; LENGTH] {
        let Entry { key, facts, age } = self;
        let mut bytes = [0; LENGTH];
        bytes[..16].copy_from_slice(&key.0);
        let number = |option: Option<NonZeroU64>| option.map_or(0, NonZeroU64::get);
        let numbers = [facts.layout, facts.first, number(facts.sample), number(facts.full), number(facts.compared)];
        for (place, number) in bytes[16..56].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes[56..60].copy_from_slice(&facts.extents.to_le_bytes());
        let flags = [
            (facts.shared, SHARED),
            (facts.encoded, ENCODED),
            (facts.nocow, NOCOW),
            (facts.was_equal, WAS_EQUAL),
            (facts.fixed, FIXED),
            (facts.inline, INLINE),
            (facts.moved, MOVED),
        ];
        bytes[60] = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum();
        bytes[61] = age;
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; LENGTH]) -> Entry {
        let number = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let mut key = [0; 16];
        key.copy_from_slice(&bytes[..16]);
        let has = |flag: u8| bytes[60] & flag != 0;
        let facts = Facts {
            layout: number(16),
            first: number(24),
            sample: NonZeroU64::new(number(32)),
            full: NonZeroU64::new(number(40)),
            compared: NonZeroU64::new(number(48)),
            extents: bytes[56..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)),
            shared: has(SHARED),
            encoded: has(ENCODED),
            nocow: has(NOCOW),
            was_equal: has(WAS_EQUAL),
            fixed: has(FIXED),
            inline: has(INLINE),
            moved: has(MOVED),
            ..Facts::default()
        };
        Entry { key: Key(key), facts, age: bytes[61] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_survive_their_bytes(
            key in any::<[u8; 16]>(), layout in any::<u64>(), first in any::<u64>(), sample in any::<u64>(),
            full in any::<u64>(), compared in any::<u64>(), extents in any::<u32>(), flags in any::<[bool; 7]>(),
            age in any::<u8>(),
        ) {
            let option = NonZeroU64::new;
            let facts = Facts {
                layout, first, sample: option(sample), full: option(full), compared: option(compared), extents,
                shared: flags[0], encoded: flags[1], nocow: flags[2], was_equal: flags[3], fixed: flags[4],
                inline: flags[5], moved: flags[6], ..Facts::default()
            };
            let entry = Entry { key: Key(key), facts, age };
            prop_assert_eq!(Entry::from_bytes(&entry.to_bytes()), entry);
        }
    }
}

//! One entry of the cache: 64 bytes, written down in `docs/dedupe.md`. Pure, no I/O.

use super::catalogue::{Catalogue, FileId};
use super::facts::{Facts, short};
use std::num::NonZeroU64;

/// The length of an entry in bytes.
pub(super) const LENGTH: usize = 64;

/// The bytes of an entry. They begin with its key.
pub(super) type Encoded = [u8; LENGTH];

/// The identity of a file and of its present version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(pub(super) [u8; 16]);

impl Key {
    /// The key of a file as the walk saw it: a hash of filesystem, subvolume, inode, size, mtime and ctime.
    pub(super) fn of(catalogue: &Catalogue, file: FileId) -> Key {
        let (record, subvolume) = (catalogue.record(file), catalogue.subvolume(file).number);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&catalogue.volume(file).uuid);
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

    /// The key of an entry.
    pub(super) fn of_encoded(bytes: &Encoded) -> Key {
        Key(bytes.first_chunk().copied().unwrap_or_default())
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
/// Only in records of changes, never in a cache.
const PLACE_ONLY: u8 = 128;

impl Entry {
    pub(super) fn to_bytes(self) -> Encoded {
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

    pub(super) fn from_bytes(bytes: &Encoded) -> Entry {
        let number = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
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
        Entry { key: Key::of_encoded(bytes), facts, age: bytes[61] }
    }
}

/// A change of the cache by a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A new entry, or one with newer facts.
    Set(Entry),
    /// A file got other extents. The other facts about it are those of the last entry with its key; without one there
    /// is no change.
    Moved {
        /// The key of the file.
        key: Key,
        /// Its new layout; 0: not known.
        layout: u64,
        /// Where it begins.
        first: u64,
    },
}

impl Change {
    pub(super) fn to_bytes(self) -> Encoded {
        match self {
            Change::Set(entry) => entry.to_bytes(),
            Change::Moved { key, layout, first } => {
                let facts = Facts { layout, first, ..Facts::default() };
                let mut bytes = Entry { key, facts, age: 0 }.to_bytes();
                bytes[60] = PLACE_ONLY;
                bytes
            }
        }
    }

    pub(super) fn from_bytes(bytes: &Encoded) -> Change {
        let entry = Entry::from_bytes(bytes);
        if bytes[60] & PLACE_ONLY == 0 {
            return Change::Set(entry);
        }
        Change::Moved { key: entry.key, layout: entry.facts.layout, first: entry.facts.first }
    }

    /// The key of the file.
    pub(super) fn key(&self) -> Key {
        match self {
            Change::Set(entry) => entry.key,
            Change::Moved { key, .. } => *key,
        }
    }

    /// This change after another one with its key, as one change.
    pub(super) fn after(self, earlier: Change) -> Change {
        match earlier {
            Change::Set(entry) => self.apply(Some(entry)).map_or(self, Change::Set),
            Change::Moved { .. } => self,
        }
    }

    /// Applies it to the last entry with its key.
    pub(super) fn apply(self, last: Option<Entry>) -> Option<Entry> {
        match self {
            Change::Set(entry) => Some(entry),
            // Only the place, not the number of extents: a file that shares ranges with others is no worse a source for
            // having more extents.
            Change::Moved { layout, first, .. } => last.map(|mut entry| {
                (entry.facts.layout, entry.facts.first, entry.facts.moved) = (layout, first, true);
                Entry { age: 0, ..entry }
            }),
        }
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
            for change in [Change::Set(entry), Change::Moved { key: entry.key, layout, first }] {
                prop_assert_eq!(Change::from_bytes(&change.to_bytes()), change);
            }
        }
    }
}

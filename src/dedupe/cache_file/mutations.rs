//! Damaged caches: thousands of mutations of a valid one, the same in each run of this test.

use super::layout::{VERSION, header};
use super::section::CHECKSUM;
use super::*;
use crate::dedupe::entry::{Entry, Key, LENGTH};
use crate::dedupe::facts::Facts;
use std::collections::HashSet;

const MUTATIONS: u32 = 4000;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    match random.below(7) {
        0 => {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        1 => bytes.truncate(random.below(bytes.len())),
        2 => bytes.extend((0..1 + random.below(300)).map(|number| number as u8)),
        3 => {
            let (from, to) = (random.below(bytes.len()), random.below(bytes.len()));
            bytes.swap(from, to);
        }
        4 => {
            // Repeats one entry, removes it, or changes nothing.
            let from = (HEADER + random.below(40) * LENGTH).min(bytes.len());
            let part = bytes[from..].to_vec();
            bytes.truncate((from + LENGTH * random.below(3)).saturating_sub(LENGTH).min(bytes.len()));
            bytes.extend(part);
        }
        5 => {
            // The number of entries, or the length of the index.
            let (at, byte) = (24 + random.below(16), random.below(256) as u8);
            if let Some(old) = bytes.get_mut(at) {
                *old = byte;
            }
        }
        _ => {
            let (from, length) = (random.below(bytes.len()), random.below(100));
            let byte = [0, 0xff, 0x7f, 0x80][random.below(4)];
            bytes.iter_mut().skip(from).take(length).for_each(|old| *old = byte);
        }
    }
}

/// Gives a mutation the right checksums, as somebody who forges a cache would.
fn seal(bytes: &mut [u8]) {
    let number = |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let (Some(count), Some(index)) = (number(24), number(32)) else { return };
    let entries = usize::try_from(count).ok().and_then(|count| count.checked_mul(LENGTH)).unwrap_or(usize::MAX);
    let Some((head, body)) = bytes.split_at_mut_checked(HEADER) else { return };
    let (mut one, mut other) = (blake3::Hasher::new(), blake3::Hasher::new());
    let (first, second) = body.split_at(entries.min(body.len()));
    one.update(first);
    other.update(second);
    let forged = header(count, &one, index, &other);
    if head[..MAGIC.len()] == MAGIC && head[16..20] == VERSION.to_le_bytes() {
        head[HEADER - 3 * CHECKSUM..].copy_from_slice(&forged[HEADER - 3 * CHECKSUM..]);
        // Other bytes of the header may be forged too.
        let own = blake3::hash(&head[..HEADER - CHECKSUM]);
        head[HEADER - CHECKSUM..].copy_from_slice(own.as_bytes());
    }
}

#[test]
fn no_mutation_of_a_cache_is_believed_or_takes_more_memory_than_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cache");
    let entry = |number: u8| {
        let facts = Facts { layout: u64::from(number) + 1, first: 1 << number, extents: 7, ..Facts::default() };
        Entry { key: Key([number * 5; 16]), facts, age: number }
    };
    let entries: Vec<_> = (0..40).map(entry).collect();
    let mut changes = Changes::default();
    entries.iter().for_each(|entry| changes.add(Change::Set(*entry), || unreachable!("they fit into memory")));
    let mut index = |writer: &mut dyn Write| writer.write_all(&[7; 300]);
    let cache = CacheFile { path: path.clone(), inode: None };
    cache.replace(None, changes, BlockIndex::Written(&mut index)).unwrap();
    let valid = fs::read(&path).unwrap();
    assert_eq!(valid.len(), HEADER + entries.len() * LENGTH + 300);
    let mut random = Random(0x00c0_ffee);
    let mut outcomes = HashSet::new();
    for number in 0..MUTATIONS {
        let mut bytes = valid.clone();
        (0..1 + random.below(3)).for_each(|_| mutate(&mut bytes, &mut random));
        let is_forged = number % 4 == 0;
        if is_forged {
            seal(&mut bytes);
        }
        fs::write(&path, &bytes).unwrap();
        match CacheFile::open(path.clone()) {
            // Only the bytes that mark a file as a cache make it a cache.
            Err(_) => {
                let mark = |bytes: &[u8]| (bytes.get(..MAGIC.len()).map(Vec::from), bytes.get(ZEROS).map(Vec::from));
                assert_ne!(mark(&bytes), mark(&valid), "mutation {number}");
                outcomes.insert("no cache");
            }
            Ok((_, Content::Verified(stored))) => {
                assert!(is_forged || bytes == valid, "mutation {number} is believed");
                let found = stored.all().unwrap();
                assert!(found.len() * LENGTH <= bytes.len() && stored.memory() <= 128);
                assert!(found.windows(2).all(|two| two[0].key < two[1].key), "mutation {number}");
                assert!(found.iter().all(|entry| stored.find(&entry.key).is_some_and(|(_, it)| it == *entry)));
                assert!(stored.index()().left() <= bytes.len() as u64);
                outcomes.insert(if is_forged && bytes != valid { "forged" } else { "valid" });
            }
            Ok((_, Content::Unusable(_))) => _ = outcomes.insert("unusable"),
            Ok((_, Content::Absent)) => panic!("mutation {number} is not found"),
        }
    }
    assert_eq!(outcomes.len(), 4, "{outcomes:?}");
}

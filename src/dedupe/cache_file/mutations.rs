//! Damaged caches: thousands of mutations of a valid one, the same in each run of this test.

use super::*;
use crate::dedupe::entry::Key;
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
            // The number of entries.
            let (at, byte) = (24 + random.below(8), random.below(256) as u8);
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

/// Gives a mutation the right checksum, as somebody who forges a cache would.
fn seal(bytes: &mut [u8]) {
    if let Some(end) = bytes.len().checked_sub(CHECKSUM) {
        let checksum = blake3::hash(&bytes[..end]);
        bytes[end..].copy_from_slice(checksum.as_bytes());
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
    CacheFile { path: path.clone(), inode: None }.replace(&[], &entries).unwrap();
    let valid = fs::read(&path).unwrap();
    assert_eq!(valid.len(), HEADER + entries.len() * LENGTH + CHECKSUM);
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
            Ok((_, Content::Entries(found))) => {
                assert!(is_forged || bytes == valid, "mutation {number} is believed");
                assert!(found.len() * LENGTH <= bytes.len() && found.capacity() * LENGTH <= 4 * bytes.len());
                assert!(found.windows(2).all(|two| two[0].key < two[1].key), "mutation {number}");
                outcomes.insert("entries");
            }
            Ok((_, Content::Unusable(_))) => _ = outcomes.insert("unusable"),
            Ok((_, Content::Absent)) => panic!("mutation {number} is not found"),
        }
    }
    assert_eq!(outcomes.len(), 3, "{outcomes:?}");
}

//! A fuzz target for the cache of dedupe.

use super::layout::{VERSION, header};
use super::stored::Stored;
use super::{COMMON, HEADER, MAGIC};
use crate::dedupe::entry::{Entry, Key, LENGTH};
use crate::util::fuzz::{file, is_ascending};
use std::io::Read as _;

/// A cache as it is, and one of these entries with the right checksums: as many whole entries as there are, and the
/// index behind the number of them in the first byte.
pub(crate) fn cache(bytes: &[u8]) {
    read(bytes);
    if bytes.len() >= COMMON && bytes[..MAGIC.len()] == MAGIC && bytes[16..20] == 1_u32.to_le_bytes() {
        let mut first = bytes.to_vec();
        first.extend(blake3::hash(bytes).as_bytes());
        read(&first);
    }
    let Some((count, content)) = bytes.split_first() else { return };
    let count = usize::from(*count).min(content.len() / LENGTH);
    let (entries, index) = content.split_at(count * LENGTH);
    let hash = |part: &[u8]| {
        let mut hasher = blake3::Hasher::new();
        hasher.update(part);
        hasher
    };
    let header = header(count as u64, &hash(entries), index.len() as u64, &hash(index));
    assert_eq!(header[16..20], VERSION.to_le_bytes());
    let (records, _) = entries.as_chunks::<LENGTH>();
    let keys: Vec<_> = records.iter().map(Key::of_encoded).collect();
    let is_sound = read(&[&header[..], content].concat());
    assert_eq!(is_sound, is_ascending(&keys), "a cache counts exactly if its entries are sorted");
}

/// Whether a cache is sound. All ways to its entries must agree.
fn read(bytes: &[u8]) -> bool {
    let Ok(Ok(stored)) = Stored::open(file(bytes), bytes.len() as u64) else { return false };
    let entries: Vec<Entry> = stored.aged(false).map(|entry| entry.expect("a verified entry")).collect();
    assert!(entries.len() * LENGTH <= bytes.len().saturating_sub(COMMON));
    let keys: Vec<_> = entries.iter().map(|entry| entry.key).collect();
    assert!(is_ascending(&keys));
    for entry in &entries {
        let (number, found) = stored.find(&entry.key).expect("an entry of the cache");
        assert_eq!((found.facts, found.age.saturating_add(1)), (entry.facts, entry.age));
        stored.set_met(number);
    }
    assert!(stored.aged(true).all(|entry| entry.is_ok_and(|entry| entry.age == 0 || !keys.contains(&entry.key))));
    let mut index = Vec::new();
    let open = stored.index();
    open().read_to_end(&mut index).expect("a verified index");
    assert!(bytes.ends_with(&index) || bytes.len() < HEADER);
    true
}

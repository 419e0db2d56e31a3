//! A fuzz target for the kept indexes of blocks.

use super::borrowed::{Borrowed, List};
use super::part::{HEADER, Header, Item, read_head, read_places, write};
use super::store::Store;
use crate::content::block_index::{Index, Place};
use crate::dedupe::entry::Key;
use crate::util::fuzz::file;
use std::io::{Cursor, Read};

/// Indexes as they are, and one index with the right checksums.
pub(crate) fn blocks(bytes: &[u8]) {
    read_store(bytes);
    if let Some(sealed) = seal(bytes) {
        read_store(&sealed);
        read_store(&[&sealed, bytes].concat());
    }
}

/// Writes the index that these bytes would be, if their header had other numbers of items.
fn seal(bytes: &[u8]) -> Option<Vec<u8>> {
    let (first, rest) = bytes.split_first_chunk::<HEADER>()?;
    let header = Header::from_bytes(first)?;
    let (items, _) = rest.as_chunks::<16>();
    let files = items.len().min(usize::try_from(header.files).ok()?);
    let (keys, rest) = items.split_at(files);
    let (borrowed, places) = rest.split_at(rest.len().min(usize::try_from(header.borrowed).ok()?));
    let number = |bytes: &[u8; 16], at: usize| bytes[at..].first_chunk().map_or(0, |four| u32::from_le_bytes(*four));
    let range = |bytes: &[u8; 16]| Borrowed {
        file: number(bytes, 0),
        block: number(bytes, 4),
        blocks: number(bytes, 8),
        owner: number(bytes, 12),
    };
    let place = |bytes: &[u8; 16]| {
        let hash = u64::from(number(bytes, 0)) | u64::from(number(bytes, 4)) << 32;
        (hash, Place { file: number(bytes, 8), block: number(bytes, 12) })
    };
    let [files, ranges, many] = [keys.len(), borrowed.len(), places.len()].map(|count| count as u64);
    let header = Header { files, borrowed: ranges, places: many, ..header };
    let mut out = Vec::new();
    let keys = keys.iter().map(|key| Key(*key));
    write(&mut out, header, keys, borrowed.iter().map(range), places.iter().map(place)).expect("memory");
    let content = read_part(header, &out[HEADER..]).expect("an index that was written");
    assert_eq!((content.0, content.1 as u64), (files, many));
    Some(out)
}

fn read_store(bytes: &[u8]) {
    let owned = bytes.to_vec();
    let open = move || Box::new(Cursor::new(owned.clone())) as Box<dyn Read>;
    let store = Store::open(Some(Box::new(open)), Some(Box::new(|| Ok(file(&[])))));
    assert!(!store.is_changed());
    let (mut at, mut parts) = (0, 0);
    while let Some(header) = bytes.get(at..).and_then(|rest| rest.first_chunk()).and_then(Header::from_bytes) {
        let Some(end) = header.length().and_then(|length| (at + HEADER).checked_add(usize::try_from(length).ok()?))
        else {
            break;
        };
        if end > bytes.len() || parts == 16 {
            break;
        }
        let found = store.find(&header.id);
        assert!(found.iter().any(|(_, other)| *other == header), "an index of the store");
        for (number, header) in found {
            let mut rest = Vec::new();
            store.reader(number).expect("its bytes").read_to_end(&mut rest).expect("its bytes");
            read_part(header, &rest);
        }
        (at, parts) = (end, parts + 1);
    }
    let mut written = Vec::new();
    store.write(&mut written).expect("memory");
    assert!(written.len() <= at, "indexes from nowhere");
}

/// The numbers of keys and places of a sound index.
fn read_part(header: Header, rest: &[u8]) -> Option<(u64, usize)> {
    const MEMORY: u64 = 1 << 12;
    let (mut keys, mut list, mut has_range) = (0, List::new(MEMORY), false);
    let head = read_head(&mut &*rest, header, |item| match item {
        Item::Key(_) => {
            assert!(!has_range, "a key after a range");
            keys += 1;
        }
        Item::Range(range) => {
            has_range = true;
            let bytes = range.bytes(1 << 16);
            assert!(bytes.start <= bytes.end);
            list.add(range);
        }
    });
    list.sort();
    assert!(size_of_val(list.ranges()) as u64 <= MEMORY);
    let mut index = Index::new(MEMORY, 1000);
    let mut places = 0;
    let all = read_places(&mut &*rest, header, |hash, place| {
        places += 1;
        if place.file != u32::MAX {
            index.put(hash, place);
            assert!(index.find(hash).is_none_or(|found| found == place));
        }
    });
    assert!(all.is_err() || head.is_ok(), "the second reading trusts more than the first one");
    all.is_ok().then_some((keys, places))
}

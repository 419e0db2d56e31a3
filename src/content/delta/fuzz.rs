//! A fuzz target for lists of hashes.

use super::list::{List, NewList};
use crate::content::hash::tree::{Subtree, WINDOW, Whole, merge};
use crate::util::fuzz::{Source, file};

/// A list as it is, and a sound list of values. Two numbers come first: the size of the file and its grain.
pub(crate) fn hashes(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let size = 1 + source.number() % (6 * WINDOW);
    let grain = 1 << (10 + source.byte() % 11);
    let content = source.rest();
    if let Some(hash) = content.get(24..56).and_then(|hash| hash.try_into().ok()) {
        for size in [size, content.get(16..).and_then(|rest| rest.first_chunk()).map_or(0, |n| u64::from_le_bytes(*n))]
        {
            if let Some(list) = List::open(file(content), size, &hash) {
                assert_eq!(check(&list, size), hash);
            }
        }
    }
    written(content, size, grain);
}

/// Writes a list of values from the input, and reads it.
fn written(content: &[u8], size: u64, grain: usize) {
    let mut values = content.chunks_exact(32).filter_map(|value| Subtree::try_from(value).ok()).cycle();
    let windows = size.div_ceil(WINDOW);
    let length = |number: u64| (size - number * WINDOW).min(WINDOW);
    let mut whole = Whole::default();
    let out = file(&[]);
    let list = NewList::new(out.try_clone().expect("a file"), size, grain);
    for number in 0..windows {
        let count = (length(number) as usize).div_ceil(grain);
        let some: Vec<_> = (0..count).map(|_| values.next().unwrap_or_default()).collect();
        whole.add(number, merge(&some, length(number), grain as u64));
        list.write(number, &some);
    }
    let hash = whole.finish().expect("windows");
    list.finish(&hash);
    assert_eq!(list.complete(), Some(&hash));
    match List::open(out.try_clone().expect("a file"), size, &hash) {
        Some(list) => assert_eq!(check(&list, size), hash),
        None => assert!(size <= WINDOW, "a list of a file of one window is useless, and all others are sound"),
    }
    assert!(List::open(out, size + 1, &hash).is_none(), "a list of another file");
}

/// Reads all windows. Returns the root of their tree.
fn check(list: &List, size: u64) -> [u8; 32] {
    let (mut whole, mut buffer) = (Whole::default(), Vec::new());
    let windows = size.div_ceil(WINDOW);
    for number in 0..windows {
        let length = (size - number * WINDOW).min(WINDOW);
        let values = list.window(number, &mut buffer).expect("values of a list that was opened");
        assert_eq!(values.len(), (length as usize).div_ceil(list.grain()));
        whole.add(number, merge(values, length, list.grain() as u64));
    }
    for number in [windows, u64::MAX] {
        assert!(list.window(number, &mut buffer).is_none());
    }
    whole.finish().expect("windows")
}

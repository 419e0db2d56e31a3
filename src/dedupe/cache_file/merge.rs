//! Merges the old entries and sorted lists of changes to the sorted entries of a new cache. In memory is one change of
//! each list.

use crate::dedupe::entry::{Change, Entry, Key};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

/// A list of changes that is sorted by key, with each key once.
pub(super) type List<'a> = Box<dyn Iterator<Item = io::Result<Change>> + 'a>;

/// The entries of a new cache. Later lists change the result of earlier ones.
pub(super) fn merge(lists: Vec<List<'_>>) -> impl Iterator<Item = io::Result<Entry>> {
    let mut merge = Merge { heads: lists.iter().map(|_| None).collect(), next: BinaryHeap::new(), lists };
    let mut failed = (0..merge.lists.len()).try_for_each(|number| merge.advance(number)).err();
    std::iter::from_fn(move || {
        if let Some(error) = failed.take() {
            merge.next.clear();
            return Some(Err(error));
        }
        // Some keys have no entry: those of files that were moved and are otherwise unknown.
        while let Some(Reverse((key, _))) = merge.next.peek().copied() {
            match merge.entry(&key) {
                Ok(Some(entry)) => return Some(Ok(entry)),
                Ok(None) => {}
                Err(error) => {
                    merge.next.clear();
                    return Some(Err(error));
                }
            }
        }
        None
    })
}

struct Merge<'a> {
    lists: Vec<List<'a>>,
    /// The next change of each list.
    heads: Vec<Option<Change>>,
    /// Their keys, and the numbers of the lists.
    next: BinaryHeap<Reverse<(Key, usize)>>,
}

impl Merge<'_> {
    /// Reads the next change of a list.
    fn advance(&mut self, number: usize) -> io::Result<()> {
        let change = self.lists.get_mut(number).and_then(Iterator::next).transpose()?;
        self.next.extend(change.map(|change| Reverse((change.key(), number))));
        if let Some(head) = self.heads.get_mut(number) {
            *head = change;
        }
        Ok(())
    }

    /// The result of all changes with the next key, in the order of their lists.
    fn entry(&mut self, key: &Key) -> io::Result<Option<Entry>> {
        let mut entry = None;
        while let Some(Reverse((next, number))) = self.next.peek().copied()
            && next == *key
        {
            self.next.pop();
            if let Some(change) = self.heads.get_mut(number).and_then(Option::take) {
                entry = change.apply(entry);
            }
            self.advance(number)?;
        }
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dedupe::facts::Facts;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn key(number: u8) -> Key {
        Key([number; 16])
    }

    fn change(number: u8, layout: u64, only_moved: bool) -> Change {
        let facts = Facts { layout, extents: number.into(), ..Facts::default() };
        match only_moved {
            true => Change::Moved { key: key(number), layout, first: layout + 1 },
            false => Change::Set(Entry { key: key(number), facts, age: number }),
        }
    }

    #[test]
    fn a_moved_file_keeps_its_other_facts_and_gets_no_entry_without_them() {
        let lists = [vec![change(1, 10, false)], vec![change(1, 20, true), change(2, 20, true)]];
        let lists = lists.into_iter().map(|list| Box::new(list.into_iter().map(Ok)) as List<'_>).collect();
        let merged: Vec<_> = merge(lists).map(Result::unwrap).collect();
        let facts = Facts { layout: 20, first: 21, extents: 1, moved: true, ..Facts::default() };
        assert_eq!(merged, [Entry { key: key(1), facts, age: 0 }]);
    }

    #[test]
    fn a_list_that_fails_ends_the_merge() {
        let failing = vec![Ok(change(1, 1, false)), Err(io::Error::other("it fails"))];
        let other = (0..9).map(|number| Ok(change(number, 2, false)));
        let merged: Vec<_> = merge(vec![Box::new(failing.into_iter()), Box::new(other)]).collect();
        assert!(merged.len() < 9 && merged.last().unwrap().is_err());
    }

    proptest! {
        #[test]
        fn merging_is_applying_all_changes_in_order(
            lists in prop::collection::vec(prop::collection::vec((0_u8..20, 1_u64..9, any::<bool>()), 0..20), 0..9),
        ) {
            let mut expected = BTreeMap::new();
            let mut sorted: Vec<List<'_>> = Vec::new();
            for list in lists {
                let list: BTreeMap<_, _> =
                    list.into_iter().map(|(number, layout, moved)| (number, change(number, layout, moved))).collect();
                for (number, change) in &list {
                    let last = expected.remove(number);
                    expected.extend(change.apply(last).map(|entry| (*number, entry)));
                }
                sorted.push(Box::new(list.into_values().map(Ok)));
            }
            let merged: Vec<_> = merge(sorted).map(Result::unwrap).collect();
            prop_assert_eq!(merged, expected.into_values().collect::<Vec<_>>());
        }
    }
}

//! The changes of the cache by one run. A bounded number is in memory; the others are in an unnamed file, as sorted
//! lists.

use super::merge::List;
use super::section::BUFFER;
use crate::dedupe::entry::{Change, Encoded, Key, LENGTH};
use crate::fs::pread::{read_exact, write_all};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The number of changes in memory.
const ROOM: usize = 128 << 10;
/// The memory for reading all lists.
const READING: usize = 8 << 20;

/// The changes. Later ones with the same key apply to the result of earlier ones.
#[derive(Debug, Default)]
pub(in crate::dedupe) struct Changes {
    /// In the order of their arrival.
    memory: Vec<Encoded>,
    /// Sorted lists, the oldest first.
    lists: Vec<Range<u64>>,
    file: Option<Arc<File>>,
    /// Why some changes could not be kept.
    failed: Option<io::Error>,
    moved: bool,
}

impl Changes {
    /// Adds a change. `spill` makes an unnamed file; if that or writing to it fails, [`Changes::into_lists`] fails.
    pub(in crate::dedupe) fn add(&mut self, change: Change, spill: impl FnOnce() -> io::Result<OwnedFd>) {
        self.moved |= match change {
            Change::Set(entry) => entry.facts.moved,
            Change::Moved { .. } => true,
        };
        if self.failed.is_some() {
            return;
        }
        self.memory.push(change.to_bytes());
        if self.memory.len() >= ROOM
            && let Err(error) = self.write(spill)
        {
            (self.failed, self.memory) = (Some(error), Vec::new());
        }
    }

    /// Whether one of them is a file that the run gave other extents.
    pub(super) fn has_moved(&self) -> bool {
        self.moved
    }

    /// The changes as sorted lists, the oldest first.
    ///
    /// # Errors
    /// If not all changes could be kept.
    pub(super) fn into_lists(mut self) -> io::Result<Vec<List<'static>>> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let newest = settle(std::mem::take(&mut self.memory));
        let room = (READING / (self.lists.len() + 1)).clamp(LENGTH, BUFFER);
        let mut lists: Vec<List<'static>> = Vec::new();
        if let Some(file) = &self.file {
            for range in self.lists {
                lists.push(Box::new(read(Arc::clone(file), range, room)));
            }
        }
        lists.push(Box::new(newest.into_iter().map(|record| Ok(Change::from_bytes(&record)))));
        Ok(lists)
    }

    fn write(&mut self, spill: impl FnOnce() -> io::Result<OwnedFd>) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => Arc::new(spill()?.into()),
        };
        let records = settle(std::mem::take(&mut self.memory));
        let at = self.lists.last().map_or(0, |list| list.end);
        write_all(&file, records.as_flattened(), at)?;
        self.lists.push(at..at + (records.len() * LENGTH) as u64);
        (self.file, self.memory) = (Some(file), records);
        self.memory.clear();
        Ok(())
    }
}

/// Sorts changes by key and keeps one change for each key.
fn settle(mut records: Vec<Encoded>) -> Vec<Encoded> {
    // Stable: changes with the same key stay in their order.
    records.sort_by_key(Key::of_encoded);
    records.dedup_by(|later, earlier| {
        let again = Key::of_encoded(later) == Key::of_encoded(earlier);
        if again {
            *earlier = Change::from_bytes(later).after(Change::from_bytes(earlier)).to_bytes();
        }
        again
    });
    records
}

/// Reads a list.
fn read(file: Arc<File>, range: Range<u64>, room: usize) -> impl Iterator<Item = io::Result<Change>> {
    let count = (range.end - range.start) / LENGTH as u64;
    let mut reader = BufReader::with_capacity(room, Part { file, range });
    (0..count).map(move |_| {
        let mut record = [0; LENGTH];
        reader.read_exact(&mut record)?;
        Ok(Change::from_bytes(&record))
    })
}

/// A part of an unnamed file.
struct Part {
    file: Arc<File>,
    range: Range<u64>,
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.range.end - self.range.start).unwrap_or(usize::MAX);
        let most = left.min(buffer.len());
        read_exact(&self.file, &mut buffer[..most], self.range.start)?;
        self.range.start += most as u64;
        Ok(most)
    }
}

#[cfg(test)]
mod tests {
    use super::super::merge::merge;
    use super::*;
    use crate::dedupe::entry::Entry;
    use crate::dedupe::facts::Facts;

    fn key(number: u64) -> Key {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        Key(key)
    }

    fn set(number: u64, layout: u64) -> Change {
        Change::Set(Entry { key: key(number), facts: Facts { layout, extents: 5, ..Facts::default() }, age: 0 })
    }

    fn spill() -> io::Result<OwnedFd> {
        Ok(tempfile::tempfile()?.into())
    }

    #[test]
    fn more_changes_than_fit_into_memory_are_found_sorted_and_the_last_of_a_key_wins() {
        let mut changes = Changes::default();
        let many = 3 * ROOM as u64 + 7;
        (0..many).for_each(|number| changes.add(set(number, 1), spill));
        assert!(!changes.has_moved());
        // One in the same list as its first change, and others in later lists.
        for number in [1, 2, many - 1] {
            changes.add(set(number, 2), spill);
        }
        changes.add(Change::Moved { key: key(2), layout: 3, first: 4 }, spill);
        changes.add(Change::Moved { key: key(many), layout: 3, first: 4 }, spill);
        assert!(changes.has_moved() && changes.memory.capacity() <= ROOM);
        let lists = changes.into_lists().unwrap();
        assert_eq!(lists.len(), 4);
        let merged: Vec<_> = merge(lists).map(Result::unwrap).collect();
        assert_eq!(merged.len() as u64, many, "a file that is moved and otherwise unknown has no entry");
        assert!(merged.windows(2).all(|two| two[0].key < two[1].key));
        let of = |number| merged[merged.binary_search_by_key(&key(number), |entry| entry.key).unwrap()].facts;
        assert_eq!([0, 1, 2, many - 1].map(|number| of(number).layout), [1, 2, 3, 2]);
        assert_eq!((of(2).first, of(2).extents, of(2).moved), (4, 5, true));
    }

    #[test]
    fn without_room_on_the_disk_no_part_of_the_changes_is_given() {
        let mut changes = Changes::default();
        (0..2 * ROOM as u64).for_each(|number| changes.add(set(number, 1), || Err(io::Error::other("no room"))));
        assert!(changes.memory.is_empty());
        assert_eq!(changes.into_lists().map(|_| ()).unwrap_err().to_string(), "no room");
    }
}

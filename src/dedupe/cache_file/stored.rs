//! The verified content of a cache file. The entries stay in the file: a look-up reads one group of them, and every
//! group's first key is in memory.
//!
//! Another process may change or shorten the file after it was verified. A look-up then finds nothing or a wrong entry,
//! which costs a saving or a comparison. Copying the entries to a new cache verifies them again.

use super::layout::Layout;
use super::section::{BUFFER, SectionReader};
use crate::dedupe::entry::{Encoded, Entry, Key, LENGTH};
use crate::fs::pread::read_full;
use crate::monitor::CacheFault;
use crate::util::bits::Bits;
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::sync::Arc;

/// Entries in a group.
const GROUP: usize = 64;
/// Entries that no run has met for this many runs are dropped.
const OLDEST: u8 = 30;

/// The content of a cache file.
#[derive(Debug)]
pub(in crate::dedupe) struct Stored {
    file: Arc<File>,
    layout: Layout,
    /// The first key of each group.
    firsts: Vec<Key>,
    /// The entries that this run met and did not change.
    met: Bits,
}

impl Stored {
    /// Verifies the content of a file of this size.
    pub(super) fn open(file: File, size: u64) -> io::Result<Result<Stored, CacheFault>> {
        let layout = match Layout::read(&file, size)? {
            Ok(layout) => layout,
            Err(fault) => return Ok(Err(fault)),
        };
        let file = Arc::new(file);
        let mut firsts = Vec::new();
        let mut last = None;
        // A sparse file may claim any size, so memory is allocated only as entries are read.
        for number in records(layout.entries.reader(&file)) {
            let (number, key) = number.map(|(number, record)| (number, Key::of_encoded(&record)))?;
            // Checked for each entry: of a forged file no more than its first entries are read.
            if last.is_some_and(|last| last >= key) {
                return Ok(Err(CacheFault::Damaged));
            }
            last = Some(key);
            if number.is_multiple_of(GROUP as u64) {
                firsts.push(key);
            }
        }
        if layout.count == 0 {
            layout.entries.reader(&file).verify()?;
        }
        layout.index.reader(&file).verify()?;
        let met = Bits::new(usize::try_from(layout.count).unwrap_or(0));
        Ok(Ok(Stored { file, layout, firsts, met }))
    }

    /// The number and content of the entry with this key.
    pub(in crate::dedupe) fn find(&self, key: &Key) -> Option<(u64, Entry)> {
        let group = self.firsts.partition_point(|first| first <= key).checked_sub(1)?;
        let first = (group * GROUP) as u64;
        let count = (self.layout.count - first).min(GROUP as u64) as usize;
        let mut bytes = [0; GROUP * LENGTH];
        let bytes = &mut bytes[..count * LENGTH];
        let at = self.layout.entries.at + first * LENGTH as u64;
        if read_full(&self.file, bytes, at).ok()? < bytes.len() {
            return None;
        }
        let (records, _) = bytes.as_chunks::<LENGTH>();
        let at = records.binary_search_by_key(key, Key::of_encoded).ok()?;
        Some((first + at as u64, Entry::from_bytes(records.get(at)?)))
    }

    /// Marks the entry with this number as met.
    pub(in crate::dedupe) fn set_met(&self, number: u64) {
        self.met.set(number as usize);
    }

    /// The entries for the next cache, one run older. Entries that the run met become young again, and entries not met
    /// for long are dropped. `forget_moved`: newer files are the witnesses.
    pub(super) fn aged(&self, forget_moved: bool) -> impl Iterator<Item = io::Result<Entry>> {
        records(self.layout.entries.reader(&self.file)).filter_map(move |record| {
            let aged = record.map(|(number, record)| {
                let mut entry = Entry::from_bytes(&record);
                entry.facts.moved &= !forget_moved;
                entry.age = if self.met.has(number as usize) { 0 } else { entry.age.saturating_add(1) };
                (entry.age <= OLDEST).then_some(entry)
            });
            aged.transpose()
        })
    }

    /// Opens the block index, as often as needed. A reader fails if the file has changed since it was verified.
    pub(in crate::dedupe) fn index(&self) -> impl Fn() -> SectionReader + use<> {
        let (file, index) = (Arc::clone(&self.file), self.layout.index.clone());
        move || index.reader(&file)
    }

    /// All entries as they are.
    #[cfg(test)]
    pub(super) fn all(&self) -> io::Result<Vec<Entry>> {
        let records = records(self.layout.entries.reader(&self.file));
        records.map(|record| Ok(Entry::from_bytes(&record?.1))).collect()
    }

    /// The memory that it takes.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.firsts.capacity() * size_of::<Key>() + self.layout.count as usize / 8
    }
}

/// Reads all entries with their numbers.
fn records(section: SectionReader) -> impl Iterator<Item = io::Result<(u64, Encoded)>> {
    let count = section.left() / LENGTH as u64;
    let mut reader = BufReader::with_capacity(BUFFER, section);
    let mut number = 0;
    let mut failed = false;
    std::iter::from_fn(move || {
        if number == count || failed {
            return None;
        }
        let mut record = [0; LENGTH];
        let read = reader.read_exact(&mut record).map(|()| (number, record));
        (number, failed) = (number + 1, read.is_err());
        Some(read)
    })
}

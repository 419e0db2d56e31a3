//! The kept indexes of all filesystems, one after the other: those of earlier runs, and those that replace them.
//!
//! An index is not held in memory until the end of the run: it is written to an unnamed file at once, and copied from
//! there.

use super::part::{HEADER, Header, Id};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek as _, Write};

/// Indexes that no run has replaced for this many runs are dropped.
const OLDEST: u8 = 30;
/// The most indexes to keep: of several filesystems, with several options.
const MOST: usize = 16;

/// Opens what an earlier run kept, from the beginning.
pub(in crate::dedupe) type Opener = Box<dyn Fn() -> Box<dyn Read>>;
/// Creates an unnamed file.
pub(in crate::dedupe) type Spill = Box<dyn Fn() -> io::Result<File>>;

/// The kept indexes.
#[derive(Default)]
pub(in crate::dedupe) struct Store {
    /// `None`: nothing was kept.
    old: Option<Opener>,
    parts: Vec<Part>,
    /// `None`: nothing will be kept.
    spill: Option<Spill>,
    new: Vec<File>,
}

/// An index in the store.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Where its header is.
    at: u64,
    header: Header,
    is_replaced: bool,
}

impl Store {
    /// The indexes that an earlier run kept. `spill` makes the files for those of this run; without it nothing will be
    /// kept.
    pub(in crate::dedupe) fn open(old: Option<Opener>, spill: Option<Spill>) -> Store {
        let parts = old.as_ref().map(|old| parts(&mut *old())).unwrap_or_default();
        Store { old, parts, spill, new: Vec::new() }
    }

    /// Whether indexes are kept at all.
    pub(in crate::dedupe) fn is_used(&self) -> bool {
        self.old.is_some() || self.spill.is_some()
    }

    /// The indexes with this id: their numbers and headers.
    pub(in crate::dedupe) fn find(&self, id: &Id) -> Vec<(usize, Header)> {
        let parts = self.parts.iter().enumerate().filter(|(_, part)| !part.is_replaced && part.header.id == *id);
        parts.map(|(number, part)| (number, part.header)).collect()
    }

    /// Reads an index, from behind its header.
    pub(in crate::dedupe) fn reader(&self, number: usize) -> io::Result<Box<dyn Read>> {
        let (Some(old), Some(part)) = (&self.old, self.parts.get(number)) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut reader = old();
        skip(&mut *reader, part.at + HEADER as u64)?;
        Ok(reader)
    }

    /// Keeps another index, in place of an earlier one if that is given.
    pub(in crate::dedupe) fn keep(
        &mut self,
        replaces: Option<usize>,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(spill) = &self.spill else { return Ok(()) };
        let mut out = BufWriter::with_capacity(1 << 20, spill()?);
        write(&mut out)?;
        let mut file = out.into_inner().map_err(|error| error.into_error())?;
        file.rewind()?;
        self.new.push(file);
        if let Some(part) = replaces.and_then(|number| self.parts.get_mut(number)) {
            part.is_replaced = true;
        }
        Ok(())
    }

    /// Whether the indexes differ from those of the earlier run.
    pub(in crate::dedupe) fn is_changed(&self) -> bool {
        !self.new.is_empty() || self.parts.iter().any(|part| part.is_replaced)
    }

    /// Writes all indexes: the new ones, and the others as they were.
    pub(in crate::dedupe) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for file in &self.new {
            io::copy(&mut &*file, out)?;
        }
        let is_kept = |part: &&Part| !part.is_replaced && part.header.age < OLDEST;
        for part in self.parts.iter().filter(is_kept).take(MOST.saturating_sub(self.new.len())) {
            let (Some(old), Some(length)) = (&self.old, part.header.length()) else { continue };
            let mut reader = old();
            skip(&mut *reader, part.at + HEADER as u64)?;
            out.write_all(&Header { age: part.header.age + 1, ..part.header }.to_bytes())?;
            copy(&mut *reader, out, length)?;
        }
        Ok(())
    }
}

/// Finds the indexes. A damaged end is ignored.
fn parts(reader: &mut dyn Read) -> Vec<Part> {
    let (mut parts, mut at) = (Vec::new(), 0_u64);
    let mut bytes = [0; HEADER];
    while parts.len() < MOST && reader.read_exact(&mut bytes).is_ok() {
        let Some(header) = Header::from_bytes(&bytes) else { break };
        let Some(length) = header.length() else { break };
        if skip(reader, length).is_err() {
            break;
        }
        parts.push(Part { at, header, is_replaced: false });
        at = at.saturating_add(HEADER as u64).saturating_add(length);
    }
    parts
}

fn skip(reader: &mut dyn Read, length: u64) -> io::Result<()> {
    copy(reader, &mut io::sink(), length)
}

fn copy(reader: &mut dyn Read, out: &mut dyn Write, length: u64) -> io::Result<()> {
    let copied = io::copy(&mut reader.take(length), out)?;
    if copied == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::super::part::{self, Kind};
    use super::*;
    use crate::dedupe::entry::Key;
    use std::io::Cursor;

    fn id(volume: u8) -> Id {
        Id { kind: Kind::Bytes, volume: [volume; 16], nocow: false, block: 4096, min_run: 65536 }
    }

    fn store(old: &[u8]) -> Store {
        let old = old.to_vec();
        Store::open(Some(Box::new(move || Box::new(Cursor::new(old.clone())))), Some(Box::new(tempfile::tempfile)))
    }

    fn keep(store: &mut Store, replaces: Option<usize>, volume: u8, key: u8) {
        let header = Header { id: id(volume), age: 0, modulus: 1, files: 1, borrowed: 0, places: 0 };
        let keys = [Key([key; 16])].into_iter();
        store.keep(replaces, |out| part::write(out, header, keys, [].into_iter(), [].into_iter())).unwrap();
    }

    fn written(store: &Store) -> Vec<u8> {
        let mut bytes = Vec::new();
        store.write(&mut bytes).unwrap();
        bytes
    }

    /// The ages and keys of the indexes with an id.
    fn found(store: &Store, volume: u8) -> Vec<(u8, u8)> {
        let key = |(number, header): (usize, Header)| {
            let mut found = 0;
            let mut reader = store.reader(number).unwrap();
            let each = |item| match item {
                part::Item::Key(key) => found = key.0[0],
                part::Item::Range(_) => panic!("there are none"),
            };
            part::read_head(&mut *reader, header, each).unwrap();
            (header.age, found)
        };
        store.find(&id(volume)).into_iter().map(key).collect()
    }

    #[test]
    fn an_index_stays_until_it_is_replaced_or_old() {
        let mut first = store(&[]);
        assert!(!first.is_changed());
        keep(&mut first, None, 1, 10);
        keep(&mut first, None, 2, 20);
        let mut bytes = written(&first);
        let mut second = store(&bytes);
        assert!(!second.is_changed() && first.is_changed());
        assert_eq!((found(&second, 1), found(&second, 2), found(&second, 3)), (vec![(0, 10)], vec![(0, 20)], vec![]));
        let number = second.find(&id(2))[0].0;
        keep(&mut second, Some(number), 2, 21);
        for age in 1..=OLDEST {
            bytes = written(&second);
            second = store(&bytes);
            assert_eq!(found(&second, 1), [(age, 10)]);
            assert_eq!(found(&second, 2), [(age - 1, 21)]);
        }
        assert_eq!(found(&store(&written(&second)), 1), []);
    }

    #[test]
    fn a_damaged_end_loses_one_index_and_no_other() {
        let mut first = store(&[]);
        keep(&mut first, None, 1, 10);
        keep(&mut first, None, 2, 20);
        let bytes = written(&first);
        let cut = store(&bytes[..bytes.len() - 1]);
        assert_eq!((found(&cut, 1), found(&cut, 2)), (vec![(0, 10)], vec![]));
    }
}

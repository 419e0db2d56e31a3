//! The order of the records. Both sides merge the manifest of the base with that of the new snapshot, so each record
//! has one possible place: behind the last one, in a directory that came before, and before the next one of the base
//! unless it replaces that. A stream with another order is refused before anything is made for it.
//!
//! So no path gets two entries, nothing that was made is removed again, and all entries of a directory are complete
//! when it is left. The only names that this cannot compare are those of an entry and of a later subdirectory:
//! [`tree`](super::tree) finds these.

use crate::error::Result;
use crate::snapshot::manifest::{self, Directory, Entry, Item, Items};
use crate::snapshot::stream::damage;
use crate::util::path::join;
use std::cmp::Ordering;

/// The records of the base and the place of the last one of the new snapshot.
pub(super) struct Sequence<'b> {
    base: Option<Records<'b>>,
    /// The records of the base that were passed.
    passed: u64,
    /// The directory that gets entries now.
    directory: Option<Vec<u8>>,
    /// Its last entry. Empty: there is none.
    name: Vec<u8>,
}

/// Records, with the next one.
struct Records<'b> {
    items: Items<'b>,
    next: Option<Item>,
}

impl Records<'_> {
    /// The next record, and the path of its directory.
    fn take(&mut self) -> Result<Option<(Vec<u8>, Item)>> {
        let Some(item) = self.next.take() else { return Ok(None) };
        let directory = self.items.directory().to_vec();
        self.next = self.items.next().transpose()?;
        Ok(Some((directory, item)))
    }
}

impl<'b> Sequence<'b> {
    pub(super) fn new(base: Option<Items<'b>>) -> Result<Sequence<'b>> {
        let base = match base {
            Some(mut items) => {
                let next = items.next().transpose()?;
                Some(Records { items, next })
            }
            None => None,
        };
        Ok(Sequence { base, passed: 0, directory: None, name: Vec::new() })
    }

    /// The records of the base that were passed.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// The next record of the base is one of the new snapshot, too.
    pub(super) fn same(&mut self) -> Result<Item> {
        let (directory, item) = self.next_of_base()?;
        match &item {
            Item::Directory(directory) => self.enter(&directory.path)?,
            // It is behind the last one, as all records of the base are.
            Item::Entry(entry) if self.directory.as_ref() == Some(&directory) => self.name.clone_from(&entry.name),
            Item::Entry(_) => return Err(damage("it keeps an entry without its directory")),
        }
        Ok(item)
    }

    /// The next record of the base is not in the new snapshot. Returns its path, too.
    pub(super) fn gone(&mut self) -> Result<(Vec<u8>, Item)> {
        let (directory, item) = self.next_of_base()?;
        match &item {
            Item::Directory(_) => Ok((directory, item)),
            Item::Entry(entry) => Ok((join(&directory, &entry.name), item)),
        }
    }

    /// A directory of the new snapshot follows.
    pub(super) fn directory(&mut self, path: &[u8], replaces: bool) -> Result<()> {
        self.place(path, b"", replaces)?;
        self.enter(path)
    }

    /// An entry of the new snapshot follows. Returns the record of the base that it replaces.
    pub(super) fn entry(&mut self, name: &[u8], replaces: bool) -> Result<Option<Entry>> {
        let Some(directory) = self.directory.take() else { return Err(damage("an entry comes before any directory")) };
        let replaced = self.place(&directory, name, replaces);
        self.directory = Some(directory);
        if name <= self.name.as_slice() {
            return Err(damage("entries are out of order"));
        }
        self.name.clear();
        self.name.extend_from_slice(name);
        match replaced? {
            Some(Item::Entry(entry)) => Ok(Some(entry)),
            _ => Ok(None),
        }
    }

    /// Passes a record that arrived before the transfer was cut.
    pub(super) fn resume(&mut self, item: &Item) -> Result<()> {
        match item {
            Item::Directory(Directory { path, .. }) => self.enter(path),
            Item::Entry(Entry { name, .. }) => {
                self.name.clone_from(name);
                Ok(())
            }
        }
    }

    /// Passes the records of the base that were passed before the transfer was cut.
    pub(super) fn pass(&mut self, count: u64) -> Result<()> {
        (0..count).try_for_each(|_| self.next_of_base().map(|_| ()))
    }

    /// Refuses to end before all records of the base were passed.
    pub(super) fn finish(&self) -> Result<()> {
        match &self.base {
            Some(Records { next: Some(_), .. }) => Err(damage("it leaves records of the base out")),
            _ => Ok(()),
        }
    }

    /// Passes the record of the base at a place of the new snapshot, if there must be one.
    fn place(&mut self, directory: &[u8], name: &[u8], replaces: bool) -> Result<Option<Item>> {
        let next = self.base.as_ref().and_then(|base| {
            let next = base.next.as_ref()?;
            let own = if let Item::Entry(entry) = next { entry.name.as_slice() } else { b"" };
            Some(manifest::compare_paths(directory, base.items.directory()).then_with(|| name.cmp(own)))
        });
        match (next, replaces) {
            (Some(Ordering::Equal), true) => self.next_of_base().map(|(_, item)| Some(item)),
            (None | Some(Ordering::Less), false) => Ok(None),
            _ => Err(damage("a record is not at its place between those of the base")),
        }
    }

    fn enter(&mut self, path: &[u8]) -> Result<()> {
        let before = self.directory.as_deref();
        let shared = before.map_or(0, |before| manifest::shared_length(before, path));
        manifest::may_follow(before, path, shared).map_err(damage)?;
        let directory = self.directory.get_or_insert_default();
        directory.truncate(shared);
        directory.extend_from_slice(&path[shared..]);
        self.name.clear();
        Ok(())
    }

    fn next_of_base(&mut self) -> Result<(Vec<u8>, Item)> {
        let base = self.base.as_mut().ok_or_else(|| damage("it refers to a base, but there is none"))?;
        let next = base.take()?.ok_or_else(|| damage("it refers to more records than the base has"))?;
        self.passed += 1;
        Ok(next)
    }
}

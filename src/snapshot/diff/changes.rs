//! The changes in their order, held back until it is known which removed entries were renamed.
//!
//! A change takes about 60 bytes, an added or removed entry 150, and each the length of its name; a directory with
//! changes takes the length of its path. Beyond a limit the changes so far are reported, and the others directly, with
//! renamed entries as removed and added ones.

use super::difference::{self, Difference, Facts, Top, Trees};
use super::renames::{Candidate, Content, Renames, first};
use super::stats::Stats;
use crate::error::Result;
use crate::fs::identity::Identity;
use crate::monitor::{Change, Event, Monitor};
use crate::snapshot::compare_records::{name, state};
use crate::snapshot::manifest::Item;
use crate::tree::walk::absolute;
use crate::util::path::{is_below, join, split};
use std::path::PathBuf;

/// Takes the differences one after the other.
pub(super) type Report<'r> = &'r mut dyn FnMut(&Difference<'_>) -> Result<()>;

/// The changes of a comparison.
pub(super) struct Changes<'r> {
    held: Vec<Held>,
    names: Vec<u8>,
    directories: Vec<Directory>,
    /// The directories that the present one lies in.
    chain: Vec<u32>,
    renames: Renames,
    /// Bytes that may be held. `None`: nothing is held any more.
    room: Option<usize>,
    sink: Sink<'r>,
}

/// Where the changes go.
struct Sink<'r> {
    report: Report<'r>,
    trees: &'r Trees,
    top: Top,
    stats: Stats,
    monitor: &'r dyn Monitor,
}

/// A change that is held back.
struct Held {
    directory: u32,
    /// Where its name begins and how long it is: in a record it may be longer than in a filesystem. A directory has
    /// none.
    name: (u32, u32),
    change: Change,
    /// The number of its candidate, if it was added or removed.
    candidate: Option<u32>,
    old: Option<Facts>,
    new: Option<Facts>,
}

struct Directory {
    path: Vec<u8>,
    /// The directory that it lies in, if that has changes.
    parent: Option<u32>,
    /// The number of its candidate, if it was added or removed.
    candidate: Option<u32>,
}

impl<'r> Changes<'r> {
    /// No changes yet. At most `room` bytes are held back.
    pub(super) fn new(report: Report<'r>, trees: &'r Trees, top: Top, room: usize, monitor: &'r dyn Monitor) -> Self {
        let sink = Sink { report, trees, top, stats: Stats::default(), monitor };
        let (held, names, directories, chain) = Default::default();
        Changes { held, names, directories, chain, renames: Renames::default(), room: Some(room), sink }
    }

    /// Adds the next change: an entry with its old and its new record. `identity` is that of its filesystem.
    pub(super) fn add(
        &mut self,
        directory: &[u8],
        change: Change,
        (old, new): (Option<&Item>, Option<&Item>),
        identity: Option<Identity>,
    ) -> Result<()> {
        let facts = (old.map(Facts::of), new.map(Facts::of));
        let Some(item) = new.or(old) else { return Ok(()) };
        let Some(room) = self.room else {
            return self.sink.pass(change, &path_of(directory, name(item)), None, facts);
        };
        let number = self.directory(directory);
        let candidate = matches!(change, Change::Added | Change::Removed).then(|| {
            self.renames.add(Candidate::of(item, identity, self.held.len() as u32), change == Change::Removed)
        });
        let own = &mut self.directories[number as usize];
        if matches!(item, Item::Directory(_)) {
            own.candidate = candidate;
        }
        let name = name(item);
        let place = (self.names.len() as u32, name.len() as u32);
        self.names.extend_from_slice(name);
        self.held.push(Held { directory: number, name: place, change, candidate, old: facts.0, new: facts.1 });
        let paths = self.directories.len() * size_of::<Directory>() + self.names.len() + self.renames.bytes();
        let bytes = self.held.len() * size_of::<Held>() + paths;
        // Positions of names have 32 bits.
        if bytes > room || self.names.len() > 1 << 31 {
            self.flush()?;
            self.room = None;
            self.sink.monitor.event(Event::RenamesNotSought { changes: self.sink.stats.changes() });
        }
        Ok(())
    }

    /// The number of a directory.
    fn directory(&mut self, path: &[u8]) -> u32 {
        while let Some(last) = self.chain.last() {
            let above = &self.directories[*last as usize].path;
            if above == path {
                return *last;
            }
            if is_below(path, above) {
                break;
            }
            self.chain.pop();
        }
        let parent = self
            .chain
            .last()
            .copied()
            .filter(|above| self.directories[*above as usize].path == split(path).0 && !path.is_empty());
        let number = self.directories.len() as u32;
        self.directories.push(Directory { path: path.to_vec(), parent, candidate: None });
        if let Some(room) = &mut self.room {
            *room = room.saturating_sub(path.len());
        }
        self.chain.push(number);
        number
    }

    /// Reports the changes that are held back, and returns the counts.
    pub(super) fn finish(mut self) -> Result<Stats> {
        self.flush()?;
        Ok(self.sink.stats)
    }

    fn flush(&mut self) -> Result<()> {
        let names = &self.names;
        let held = &self.held;
        let name_of = |held: &Held| names.get(held.name.0 as usize..).and_then(|rest| rest.get(..held.name.1 as usize));
        let path = |number: u32| {
            let held = &held[number as usize];
            path_of(&self.directories[held.directory as usize].path, name_of(held).unwrap_or_default())
        };
        self.renames.find(&|number| split(&path(number)).1.to_vec(), &path);
        for (number, change) in self.held.iter().enumerate() {
            if self.sink.monitor.is_cancelled() {
                return Err(crate::error::Error::interrupted());
            }
            let here = path(number as u32);
            let facts = (change.old, change.new);
            let Some(candidate) = change.candidate else {
                self.sink.pass(change.change, &here, None, facts)?;
                continue;
            };
            let is_removed = change.change == Change::Removed;
            let Some(found) = self.renames.partner(candidate, is_removed) else {
                self.sink.pass(change.change, &here, None, facts)?;
                continue;
            };
            if is_removed {
                continue;
            }
            let other = &self.held[found.held as usize];
            let there = path(found.held);
            let facts = (other.old, change.new);
            if there == here {
                self.sink.pass(Change::Type, &here, None, facts)?;
                continue;
            }
            if !self.is_implied(change, other, (&here, &there)) {
                self.sink.pass(Change::Renamed, &here, Some(&there), facts)?;
            }
            let has_same_content = match found.content {
                Content::Same => true,
                Content::Other => false,
                Content::Unknown(hash) => self.sink.has_hash(hash, &here, facts)?,
            };
            match (has_same_content, found.has_same_state) {
                (false, _) => self.sink.pass(Change::Content, &here, Some(&there), facts)?,
                (true, false) => self.sink.pass(Change::Metadata, &here, Some(&there), facts)?,
                (true, true) => {}
            }
        }
        (self.held, self.names, self.directories, self.chain) = Default::default();
        self.renames = Renames::default();
        Ok(())
    }

    /// Whether an entry was only renamed with the directory that it lies in.
    fn is_implied(&self, new: &Held, old: &Held, (here, there): (&[u8], &[u8])) -> bool {
        let above = |held: &Held| match held.name.1 {
            0 => self.directories[held.directory as usize].parent,
            _ => Some(held.directory),
        };
        let (Some(new), Some(old)) = (above(new), above(old)) else { return false };
        let [new, old] = [new, old].map(|number| self.directories[number as usize].candidate);
        let (Some(new), Some(old)) = (new, old) else { return false };
        split(here).1 == split(there).1 && self.renames.are_partners(new, old)
    }
}

impl Sink<'_> {
    /// Whether the content of a renamed file has the hash that begins so. A live file is read. A comparison of two
    /// snapshots reads no content: if one has no hash, the sizes decide.
    fn has_hash(&mut self, hash: u128, path: &[u8], (old, new): (Option<Facts>, Option<Facts>)) -> Result<bool> {
        let (Some(old), Some(new)) = (old, new) else { return Ok(false) };
        if old.size != new.size || !self.trees.is_live {
            return Ok(old.size == new.size);
        }
        let path = absolute(path);
        match difference::hash(&self.trees.new, &path, new.size, self.monitor) {
            Ok((found, read)) => {
                self.stats.read_bytes += read;
                Ok(first(found) == hash)
            }
            Err(error) if self.monitor.is_cancelled() => Err(error),
            // It counts as unchanged, like any other entry that cannot be compared.
            Err(error) => {
                self.monitor.problem(&error);
                self.stats.errors += 1;
                Ok(true)
            }
        }
    }

    fn pass(
        &mut self,
        change: Change,
        path: &[u8],
        from: Option<&[u8]>,
        (old, new): (Option<Facts>, Option<Facts>),
    ) -> Result<()> {
        self.stats.count(change);
        let top: PathBuf = absolute(self.top.of(path));
        let (path, from) = (absolute(path), from.map(absolute));
        let trees = self.trees;
        (self.report)(&Difference { change, path: &path, from: from.as_deref(), old, new, top: &top, trees })
    }
}

/// The path of an entry with this name; of the directory itself, if the name is empty.
pub(super) fn path_of(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if name.is_empty() { directory.to_vec() } else { join(directory, name) }
}

impl Candidate {
    /// The facts by which a rename is found.
    fn of(item: &Item, identity: Option<Identity>, held: u32) -> Candidate {
        Candidate::new(item, identity, state(item), held)
    }
}

//! The sink of the walk: writes the manifest, and reads the last manifest in step to find entries that are gone or
//! renamed. Records of what the walk did not look at (`scope`) are taken over, whole blocks of them as they are.

use super::entries::Output;
use super::removal::Removal;
use super::retained::Retained;
use super::scope::Scopes;
use super::stats::Stats;
use super::unsettled::Unsettled;
use crate::error::Result;
use crate::fs::status::Time;
use crate::monitor::{Change, Event, Monitor};
use crate::snapshot::manifest::{self, Entry, FileBody, Item, Items, Stored, Writer, compare_paths};
use crate::snapshot::recording_monitor::Noting;
use crate::tree::walk::absolute;
use crate::util::path::join;
use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

/// Renamed files are recognised among at most this many new files and this many gone ones: 8 MiB each.
const RENAME_CANDIDATES: usize = 1 << 20;

/// The merge of two sorted streams: the new records and those of the last snapshot.
pub(super) struct Merge<'a> {
    writer: Option<Writer>,
    old: Option<Items<'a>>,
    unseen: Unseen<'a>,
    /// Entries that the next run must look at; only if it may be a narrow one.
    unsettled: Option<Unsettled>,
    /// The old record that was read and not passed, and the directory it lies in.
    ahead: Option<Item>,
    ahead_directory: Vec<u8>,
    directory: Vec<u8>,
    /// Gets the plan of a dry run.
    plan: Option<&'a dyn Monitor>,
    /// Removes entries that are gone from the staging tree, if that began as a snapshot of the last tree.
    removal: Option<Removal<'a>>,
    gone: Vec<u64>,
    come: Vec<u64>,
    removed_files: u64,
    /// Knows which entries were skipped with an error.
    skipped: &'a Noting<'a>,
    /// The unit of allocation, and the space that copied files take beyond their data because of it.
    block_size: u64,
    rounding: u64,
    /// Entries with more attributes than a record can hold.
    shortened: Vec<PathBuf>,
}

/// Old records that the walk did not look at, or would not have looked at.
pub(super) enum Unseen<'a> {
    /// The walk looks at everything.
    None,
    /// They are taken over.
    Kept(Scopes, Retained),
    /// The walk looks at everything, and changes among them are reported here. Changes from this time on are new.
    Checked(Scopes, Time, &'a dyn Monitor),
}

impl<'a> Merge<'a> {
    pub(super) fn new(
        mut writer: Option<Writer>,
        (old, unseen): (Option<Items<'a>>, Unseen<'a>),
        unsettled: Option<Unsettled>,
        plan: Option<&'a dyn Monitor>,
        removal: Option<Removal<'a>>,
        block_size: u64,
        skipped: &'a Noting<'a>,
    ) -> Self {
        if let (Unseen::Kept(..), Some(writer)) = (&unseen, &mut writer) {
            writer.expect_blocks();
        }
        Merge {
            writer,
            old,
            unseen,
            unsettled,
            ahead: None,
            ahead_directory: Vec::new(),
            directory: Vec::new(),
            plan,
            removal,
            gone: Vec::new(),
            come: Vec::new(),
            removed_files: 0,
            skipped,
            block_size: block_size.max(1),
            rounding: 0,
            shortened: Vec::new(),
        }
    }

    /// Takes the output of a part of the walk.
    pub(super) fn push(&mut self, output: Output, number: impl Fn(u64) -> u64) -> Result<()> {
        let mut scope = Some(output.scope);
        for (mut item, change) in output.items {
            if let Item::Directory(directory) = &item {
                self.directory.clone_from(&directory.path);
            }
            let meta = item.meta_mut();
            meta.dev = number(meta.dev);
            if manifest::shorten(&mut item) {
                self.shortened.push(absolute(&path_of(&self.directory, &item)));
            }
            let is_new = self.pass(Some(&item))?;
            self.check(&item, is_new || change.is_some());
            if let Item::Directory(directory) = &item {
                if let Unseen::Kept(scopes, _) | Unseen::Checked(scopes, ..) = &mut self.unseen {
                    scopes.passed(&directory.path, scope.take().unwrap_or_default());
                }
                if let Some(removal) = &mut self.removal {
                    removal.passed(directory);
                }
            }
            if let Some(unsettled) = &mut self.unsettled {
                unsettled.note(&self.directory, &item);
            }
            if let (Some(change), Some(monitor)) = (change, self.plan) {
                monitor.planned(change, &absolute(&path_of(&self.directory, &item)));
            }
            if let (Some(_), Item::Entry(entry)) = (change, &item)
                && let Some(file) = entry.file().filter(|file| file.stored == Stored::Copied)
            {
                let data = file.size.saturating_sub(file.holes);
                self.rounding += data.next_multiple_of(self.block_size) - data;
            }
            if let (Some(Change::Added), Item::Entry(entry)) = (change, &item)
                && let Some(file) = entry.file()
                && self.come.len() < RENAME_CANDIDATES
            {
                self.come.push(fingerprint(entry, file));
            }
            if let Some(writer) = &mut self.writer {
                writer.push(&item)?;
            }
        }
        Ok(())
    }

    /// The entries that lost attributes because a record cannot hold them.
    pub(super) fn shortened(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.shortened)
    }

    /// Passes the rest of the old stream, completes `stats` with the counts of the merge, and returns the writer and
    /// the unsettled entries.
    pub(super) fn finish(mut self, stats: &mut Stats) -> Result<Merged> {
        self.pass(None)?;
        if let Some(removal) = &mut self.removal {
            removal.settle()?;
        }
        self.gone.sort_unstable();
        let renamed = self.come.iter().filter(|come| self.gone.binary_search(come).is_ok()).count() as u64;
        let renamed = renamed.min(self.removed_files).min(stats.new_files);
        stats.rounding_bytes = self.rounding;
        stats.renamed_files = renamed;
        stats.removed_files = self.removed_files - renamed;
        stats.new_files -= renamed;
        let retained = match self.unseen {
            Unseen::Kept(_, retained) => Some(retained),
            _ => None,
        };
        if let Some(retained) = &retained {
            retained.add_to(stats);
        }
        Ok(Merged { writer: self.writer, retained, unsettled: self.unsettled })
    }

    /// Passes the old records before `item`, or all of them without an item: they have no counterpart. Passes the
    /// counterpart of the item too. Returns whether the item has none.
    fn pass(&mut self, item: Option<&Item>) -> Result<bool> {
        loop {
            if self.ahead.is_none() {
                self.take_blocks(item)?;
                self.read_old()?;
            }
            let Some(old) = &self.ahead else { return Ok(true) };
            let order = match item {
                Some(item) => compare(&self.ahead_directory, old, &self.directory, item),
                None => Ordering::Less,
            };
            match order {
                Ordering::Greater => return Ok(true),
                Ordering::Equal => {
                    let old = self.ahead.take();
                    if let (Unseen::Kept(_, retained), Some(old)) = (&mut self.unseen, &old) {
                        retained.met(old);
                    }
                    let has_changed = |old: &Item, new: &Item| {
                        let (a, b) = (old.meta(), new.meta());
                        (a.mtime, a.ctime, a.ino, a.mode) != (b.mtime, b.ctime, b.ino, b.mode)
                    };
                    return Ok(old.zip(item).is_some_and(|(old, new)| has_changed(&old, new)));
                }
                Ordering::Less => self.without_counterpart()?,
            }
        }
    }

    /// Takes over whole blocks of old records that lie before `item` and that the walk did not look at.
    fn take_blocks(&mut self, item: Option<&Item>) -> Result<()> {
        let (Unseen::Kept(scopes, _), Some(writer), Some(old)) = (&mut self.unseen, &mut self.writer, &mut self.old)
        else {
            return Ok(());
        };
        let position = item.map(|item| match item {
            Item::Directory(directory) => (&directory.path[..], &b""[..]),
            Item::Entry(entry) => (&self.directory[..], &entry.name[..]),
        });
        while let Some((from, to)) = old.next_block() {
            let is_before = match (position, to) {
                (None, _) => true,
                (Some(item), Some(to)) => compare_paths(to.0, item.0).then_with(|| to.1.cmp(item.1)).is_le(),
                (Some(_), None) => false,
            };
            if !is_before || !writer.may_take_block() || !scopes.keep_all(from, to) {
                break;
            }
            if let Some(block) = old.take_block()? {
                writer.push_block(&block)?;
            }
        }
        Ok(())
    }

    /// Passes an old record without a counterpart: it is taken over, or it is gone.
    fn without_counterpart(&mut self) -> Result<()> {
        let Some(old) = &self.ahead else { return Ok(()) };
        if let Unseen::Kept(scopes, retained) = &mut self.unseen {
            if scopes.keep(&self.ahead_directory, old) {
                if let Some(writer) = &mut self.writer {
                    writer.push(old)?;
                }
                self.ahead = None;
                return Ok(());
            }
            retained.met(old);
        }
        self.removed()
    }

    /// Reports a change that the walk found only because it looked at everything. A removed entry is a change of its
    /// directory.
    fn check(&mut self, item: &Item, has_changed: bool) {
        if let Unseen::Checked(scopes, since, monitor) = &mut self.unseen
            && scopes.keep(&self.directory, item)
            && has_changed
            && item.meta().ctime < *since
        {
            monitor.event(Event::ChangeMissed(&absolute(&path_of(&self.directory, item))));
        }
    }

    fn removed(&mut self) -> Result<()> {
        if let Some(old) = &self.ahead {
            let path = path_of(&self.ahead_directory, old);
            if let Some(removal) = &mut self.removal {
                removal.remove(old, &path)?;
            }
            let is_skipped = self.skipped.has_skipped(&path);
            if let Some(monitor) = self.plan {
                let change = if is_skipped { Change::Unreadable } else { Change::Removed };
                monitor.planned(change, &absolute(&path));
            }
            if !is_skipped
                && let Item::Entry(entry) = old
                && let Some(file) = entry.file()
            {
                self.removed_files += 1;
                if self.gone.len() < RENAME_CANDIDATES {
                    self.gone.push(fingerprint(entry, file));
                }
            }
        }
        self.ahead = None;
        Ok(())
    }

    fn read_old(&mut self) -> Result<()> {
        let Some(old) = &mut self.old else { return Ok(()) };
        self.ahead = old.next().transpose()?;
        if self.ahead_directory != old.directory() {
            self.ahead_directory.clear();
            self.ahead_directory.extend_from_slice(old.directory());
        }
        Ok(())
    }
}

/// The result of a merge.
pub(super) struct Merged {
    pub(super) writer: Option<Writer>,
    /// The old records that were taken over.
    pub(super) retained: Option<Retained>,
    pub(super) unsettled: Option<Unsettled>,
}

fn compare(directory_a: &[u8], a: &Item, directory_b: &[u8], b: &Item) -> Ordering {
    compare_paths(directory_a, directory_b).then_with(|| name(a).cmp(name(b)))
}

/// A directory's record comes before its entries, so it compares as the empty name.
fn name(item: &Item) -> &[u8] {
    match item {
        Item::Directory(_) => b"",
        Item::Entry(entry) => &entry.name,
    }
}

fn path_of(directory: &[u8], item: &Item) -> Vec<u8> {
    match item {
        Item::Directory(directory) => directory.path.clone(),
        Item::Entry(entry) => join(directory, &entry.name),
    }
}

/// A fingerprint of the properties that renaming does not change.
fn fingerprint(entry: &Entry, file: &FileBody) -> u64 {
    let mut hasher = DefaultHasher::new();
    (entry.meta.ino, file.size, entry.meta.mtime).hash(&mut hasher);
    hasher.finish()
}

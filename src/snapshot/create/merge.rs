//! The sink of the walk: writes the manifest, and reads the last manifest in step to find entries that are gone or
//! renamed.

use super::entries::Output;
use super::removal::Removal;
use super::stats::Stats;
use crate::error::Result;
use crate::monitor::{Change, Monitor};
use crate::snapshot::manifest::{self, Entry, FileBody, Item, Items, Stored, Writer, compare_paths};
use crate::snapshot::noting::Noting;
use crate::snapshot::source_path::join;
use crate::tree::walk::absolute;
use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

/// Renamed files are recognised among at most this many new files and this many gone ones: 8 MiB each.
const RENAME_CANDIDATES: usize = 1 << 20;

/// The merge of two sorted streams: the new records and those of the last snapshot.
pub(super) struct Merge<'a> {
    writer: Option<Writer>,
    old: Option<Items<'a>>,
    /// The old record that has not been passed, and the directory it lies in.
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

impl<'a> Merge<'a> {
    pub(super) fn new(
        writer: Option<Writer>,
        old: Option<Items<'a>>,
        plan: Option<&'a dyn Monitor>,
        removal: Option<Removal<'a>>,
        block_size: u64,
        skipped: &'a Noting<'a>,
    ) -> Result<Self> {
        let mut merge = Merge {
            writer,
            old,
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
        };
        merge.read_old()?;
        Ok(merge)
    }

    /// Takes the output of a part of the walk.
    pub(super) fn push(&mut self, output: Output) -> Result<()> {
        for (mut item, change) in output.items {
            if let Item::Directory(directory) = &item {
                self.directory.clone_from(&directory.path);
            }
            if manifest::shorten(&mut item) {
                self.shortened.push(absolute(&path_of(&self.directory, &item)));
            }
            self.pass(Some(&item))?;
            if let (Item::Directory(directory), Some(removal)) = (&item, &mut self.removal) {
                removal.passed(directory);
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

    /// Passes the rest of the old stream, completes `stats` with the counts of the merge, and returns the writer.
    pub(super) fn finish(mut self, stats: &mut Stats) -> Result<Option<Writer>> {
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
        Ok(self.writer)
    }

    /// Passes the old records before `item`, or all of them without an item: they have no counterpart. Passes the
    /// counterpart of the item too.
    fn pass(&mut self, item: Option<&Item>) -> Result<()> {
        while let Some(old) = &self.ahead {
            let order = match item {
                Some(item) => compare(&self.ahead_directory, old, &self.directory, item),
                None => Ordering::Less,
            };
            match order {
                Ordering::Greater => break,
                Ordering::Equal => {
                    self.read_old()?;
                    break;
                }
                Ordering::Less => self.removed()?,
            }
        }
        Ok(())
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
        self.read_old()
    }

    fn read_old(&mut self) -> Result<()> {
        self.ahead = match &mut self.old {
            Some(old) => old.next().transpose()?,
            None => None,
        };
        if let Some(Item::Directory(directory)) = &self.ahead {
            self.ahead_directory.clone_from(&directory.path);
        }
        Ok(())
    }
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

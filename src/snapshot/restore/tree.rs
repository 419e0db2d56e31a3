//! The order of a restore: directories on the way in, then their entries in parallel, then, deepest first, what each
//! directory gets last (removals, its own metadata).
//!
//! Memory and descriptors are bounded: a batch of entries from a bounded number of directories, and of the directories
//! that lead to the present one, however deep, the nearest are open.

use super::directory::{self, End, Opened};
use super::links::Links;
use super::outcome::{self, Attempt, Failure, Outcome};
use super::place::Place;
use super::selection::{Part, Selection, is_within, split};
use super::{Context, Overwrite, Stats, delete, make};
use crate::error::{Error, Result};
use crate::monitor::{Amount, Change};
use crate::snapshot::manifest::{Directory, Entry, Item, Meta, Reader};
use crate::status::Status;
use rayon::prelude::*;
use rustix::fs::FileType;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// Entries that are dealt out to the threads together.
const BATCH: usize = 4096;
/// Directories that a batch holds open.
const BATCH_DIRS: usize = 128;
/// Directories on the way to the present one that are held open.
const NEAREST: usize = 64;

/// A directory on the way to the present one.
struct Level {
    /// How much of the present path is its own.
    length: usize,
    place: Option<Arc<Place>>,
    /// `st_dev` in the source.
    dev: Option<u64>,
    end: End,
}

enum Job {
    Entry(Arc<Place>, Entry),
    /// A line of the plan, in its place.
    Line(Change, PathBuf),
}

struct Tree<'a> {
    context: &'a Context<'a>,
    manifest: &'a Reader,
    source: OwnedFd,
    target: Option<OwnedFd>,
    /// The path of the present directory.
    path: Vec<u8>,
    levels: Vec<Level>,
    batch: Vec<Job>,
    ends: Vec<(Arc<Place>, End)>,
    opened: usize,
    links: Links,
    /// A directory that could not be restored: nothing below it is.
    skipped: Option<Vec<u8>>,
    stats: Stats,
}

/// Restores the selected parts of the tree `source` into `target`.
pub(super) fn restore(
    context: &Context<'_>,
    manifest: &Reader,
    selection: &Selection,
    source: OwnedFd,
    target: Option<OwnedFd>,
) -> Result<Stats> {
    let mut tree = Tree {
        context,
        manifest,
        source,
        target,
        path: Vec::new(),
        levels: Vec::new(),
        batch: Vec::new(),
        ends: Vec::new(),
        opened: 0,
        links: Links::default(),
        skipped: None,
        stats: Stats::default(),
    };
    let place = tree.reopen(b"")?;
    tree.levels.push(Level { length: 0, place: Some(Arc::new(place)), dev: None, end: End::nothing() });
    for part in selection.parts() {
        match part {
            Part::Subtree(path) => tree.subtree(path)?,
            Part::Entry(directory, name) => tree.single(directory, name)?,
        }
    }
    tree.finish()
}

impl Tree<'_> {
    fn subtree(&mut self, path: &[u8]) -> Result<()> {
        if !path.is_empty() {
            self.go_to(split(path).0)?;
        }
        let mut items = self.manifest.items_from(path);
        while let Some(item) = items.next() {
            if !is_within(items.directory(), path) {
                break;
            }
            match item {
                Ok(Item::Directory(record)) => {
                    let is_wanted = !record.scaffold;
                    self.enter(record, is_wanted)?;
                }
                Ok(Item::Entry(entry)) => {
                    // Not so only behind a damaged block.
                    if self.path != items.directory() {
                        self.go_to(items.directory())?;
                    }
                    if !self.is_skipped(items.directory()) {
                        self.push(entry)?;
                    }
                }
                Err(error) => self.problem(&error),
            }
        }
        Ok(())
    }

    fn single(&mut self, directory: &[u8], name: &[u8]) -> Result<()> {
        self.go_to(directory)?;
        if let Some(mut cursor) = self.manifest.entries_from(directory, name)?
            && let Some(entry) = cursor.seek(name)?
            && !self.is_skipped(directory)
        {
            self.push(entry)?;
        }
        Ok(())
    }

    /// Makes a directory the present one, and those above it where they are missing; those that are there are left alone.
    fn go_to(&mut self, path: &[u8]) -> Result<()> {
        self.ascend(path)?;
        while self.path != path && !self.is_skipped(path) {
            let rest = &path[self.path.len()..];
            let start = usize::from(!self.path.is_empty());
            let end = rest[start..]
                .iter()
                .position(|&byte| byte == b'/')
                .map_or(path.len(), |slash| self.path.len() + start + slash);
            match self.manifest.directory(&path[..end]) {
                Ok(Some(cursor)) => self.enter(cursor.directory().clone(), false)?,
                Ok(None) => {
                    let error = Error::failed("find the directory in the manifest");
                    self.enter_lost(&path[..end], error.at(self.context.shown(&path[..end])))?;
                }
                Err(error) => self.enter_lost(&path[..end], error)?,
            }
        }
        Ok(())
    }

    /// Makes a directory the present one whose record is lost to damage, so that what follows it is not lost with it: it
    /// gets the metadata that the snapshot's own tree has.
    fn enter_lost(&mut self, path: &[u8], error: Error) -> Result<()> {
        let above = self.here()?;
        match Status::at(&above.source, split(path).1) {
            Ok(status) if status.file_type() == FileType::Directory => {
                self.problem(&error.hint("its metadata was taken from the snapshot's tree instead"));
                // The source's device is not known; that of its parent is the best guess.
                let dev = self.levels.last().and_then(|level| level.dev).unwrap_or(status.dev);
                let meta = Meta { dev, ..Meta::of(&status, true) };
                self.enter(Directory { path: path.to_vec(), scaffold: false, meta }, false)
            }
            _ => {
                self.problem(&error);
                self.skipped = Some(path.to_vec());
                Ok(())
            }
        }
    }

    fn is_skipped(&self, path: &[u8]) -> bool {
        self.skipped.as_ref().is_some_and(|skipped| is_within(path, skipped))
    }

    fn problem(&mut self, error: &Error) {
        self.context.monitor.problem(error);
        self.stats.errors += 1;
    }

    /// Leaves directories until the present one is `path` or above it.
    fn ascend(&mut self, path: &[u8]) -> Result<()> {
        while self.levels.len() > 1 && !is_within(path, &self.path) {
            let Some(level) = self.levels.pop() else { break };
            if level.end.meta.is_some() || level.end.delete {
                let place = match level.place {
                    Some(place) => Ok(place),
                    None => self.reopen(&self.path.clone()).map(Arc::new),
                };
                match place {
                    Ok(place) => self.ends.push((place, level.end)),
                    // Somebody put something else on the way to it.
                    Err(error) => self.problem(&error),
                }
            }
            self.path.truncate(self.levels.last().map_or(0, |level| level.length));
            if self.ends.len() >= BATCH_DIRS {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// The present directory.
    fn here(&mut self) -> Result<Arc<Place>> {
        if let Some(place) = self.levels.last().and_then(|level| level.place.as_ref()) {
            return Ok(Arc::clone(place));
        }
        let place = Arc::new(self.reopen(&self.path.clone())?);
        if let Some(level) = self.levels.last_mut() {
            level.place = Some(Arc::clone(&place));
        }
        Ok(place)
    }

    /// Opens a directory from the top.
    fn reopen(&mut self, path: &[u8]) -> Result<Place> {
        Place::from_top(self.context, (&self.source, self.target.as_ref()), path)
    }

    /// A directory begins. `is_wanted`: it is to be as in the snapshot; else it is only on the way.
    fn enter(&mut self, record: Directory, is_wanted: bool) -> Result<()> {
        if self.is_skipped(&record.path) {
            return Ok(());
        }
        self.skipped = None;
        if self.context.monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        self.ascend(&record.path)?;
        if self.opened >= BATCH_DIRS {
            self.flush()?;
        }
        if record.path.is_empty() {
            return self.enter_top(record, is_wanted);
        }
        let (parent, _) = split(&record.path);
        if self.path != parent {
            // Its record was lost to damage.
            self.go_to(parent)?;
            if self.is_skipped(&record.path) {
                return Ok(());
            }
        }
        let above = match self.here() {
            Ok(above) => above,
            Err(error) => {
                self.problem(&error);
                self.skipped = Some(record.path);
                return Ok(());
            }
        };
        match directory::open(self.context, &above, &record, is_wanted) {
            Ok(Opened { place, mut end, change }) => {
                if let Some(change) = change.filter(|_| self.context.options.dry_run) {
                    self.batch.push(Job::Line(change, self.context.shown(&record.path)));
                }
                let dev = Some(record.meta.dev);
                end.is_mount &= self.levels.last().is_none_or(|parent| parent.dev.is_none() || parent.dev == dev);
                self.opened += 1;
                self.path.clear();
                self.path.extend_from_slice(&record.path);
                self.levels.push(Level { length: self.path.len(), place: Some(Arc::new(place)), dev, end });
                if let Some(far) = self.levels.len().checked_sub(NEAREST) {
                    self.levels[far].place = None;
                }
                if is_wanted {
                    self.stats.dirs += 1;
                    self.context.monitor.advance(Amount { files: 1, bytes: 0 });
                }
                Ok(())
            }
            Err(Failure::Fatal(error)) => Err(error),
            Err(Failure::Entry(error)) => {
                self.problem(&error);
                self.skipped = Some(record.path);
                Ok(())
            }
        }
    }

    /// The snapshot's own root is the target itself.
    fn enter_top(&mut self, record: Directory, is_wanted: bool) -> Result<()> {
        let place = self.here()?;
        if let Some(level) = self.levels.first_mut() {
            level.dev = Some(record.meta.dev);
        }
        if !is_wanted {
            return Ok(());
        }
        self.stats.dirs += 1;
        let keep = self.context.options.overwrite == Overwrite::Never;
        if let Some(level) = self.levels.first_mut() {
            let delete = self.context.options.delete && place.target.is_some();
            level.end = End { meta: (!keep).then_some(record.meta), is_wanted, delete, is_mount: false };
        }
        Ok(())
    }

    fn push(&mut self, entry: Entry) -> Result<()> {
        match self.here() {
            Ok(place) => self.batch.push(Job::Entry(place, entry)),
            Err(error) => {
                self.problem(&error);
                self.skipped = Some(self.path.clone());
            }
        }
        if self.batch.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    /// Restores the entries that wait, then ends the directories that wait for them.
    fn flush(&mut self) -> Result<()> {
        let context = self.context;
        let jobs = std::mem::take(&mut self.batch);
        let outcomes: Vec<Option<Attempt<Outcome>>> = jobs
            .par_iter()
            .map(|job| match job {
                Job::Entry(place, entry) if entry.meta.nlink < 2 => {
                    if context.monitor.is_cancelled() {
                        return Some(Err(Failure::Fatal(Error::interrupted())));
                    }
                    Some(
                        make::entry(context, place, entry).inspect(|outcome| outcome::advance(context, &outcome.stats)),
                    )
                }
                _ => None,
            })
            .collect();
        for (job, outcome) in jobs.into_iter().zip(outcomes) {
            let (place, entry) = match job {
                Job::Entry(place, entry) => (place, entry),
                Job::Line(change, path) => {
                    context.monitor.planned(change, &path);
                    continue;
                }
            };
            let outcome = match outcome {
                Some(outcome) => outcome,
                // The names of one inode come one after the other.
                None => self
                    .links
                    .restore(context, self.target.as_ref(), &place, &entry)
                    .inspect(|outcome| outcome::advance(context, &outcome.stats)),
            };
            match outcome {
                Ok(outcome) => {
                    self.stats = self.stats.add(outcome.stats);
                    if let Some(change) = outcome.change.filter(|_| context.options.dry_run) {
                        context.monitor.planned(change, &context.shown(&place.join(&entry.name)));
                    }
                }
                Err(Failure::Entry(error)) => self.problem(&error),
                Err(Failure::Fatal(error)) => return Err(error),
            }
        }
        for (place, end) in std::mem::take(&mut self.ends) {
            self.end(&place, end)?;
        }
        self.opened = 0;
        Ok(())
    }

    fn end(&mut self, place: &Place, end: End) -> Result<()> {
        if end.delete {
            match delete::extraneous(self.context, self.manifest, place, end.is_mount) {
                Ok(stats) => self.stats = self.stats.add(stats),
                Err(error) if self.context.monitor.is_cancelled() => return Err(error),
                // What cannot be told from the manifest is not deleted.
                Err(error) => self.problem(&error),
            }
        }
        let Some(meta) = end.meta.filter(|_| !self.context.options.dry_run) else { return Ok(()) };
        match directory::finish(self.context, place, &meta) {
            Ok(None) => {}
            // An ordinary user cannot make another's home, only what leads to their own.
            Ok(Some(error)) if !end.is_wanted => self.context.monitor.detail(&format!("{error}.")),
            Ok(Some(error)) | Err(Failure::Entry(error)) => self.problem(&error),
            Err(Failure::Fatal(error)) => return Err(error),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Stats> {
        while self.levels.len() > 1 {
            // No path is within this one but the top.
            let top = b"/".to_vec();
            self.ascend(&top)?;
        }
        let place = self.here()?;
        if let Some(top) = self.levels.pop() {
            self.ends.push((place, top.end));
        }
        self.flush()?;
        self.stats.errors += self.links.finish(self.context, self.target.as_ref());
        Ok(self.stats)
    }
}

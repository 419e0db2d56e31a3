//! The visitor of the walk: adds directories (`directory`) and their entries (`entries`) from the source to the staging
//! tree.

use super::context::Context;
use super::directory::{self, Recorded, last};
use super::emptied;
use super::entries::{self, Output};
use super::narrowing::Narrowing;
use super::scope::Scope;
use super::staged::Staged;
use super::staged_directory::StagedDirectory;
use super::stats::Stats;
use super::watch::Watch;
use crate::error::{Error, Result};
use crate::fs::open_files;
use crate::fs::status::Status;
use crate::monitor::{Amount, Event};
use crate::snapshot::manifest::{Item, LONGEST_PATH, Origin};
use crate::tree::walk::{Directory, Name, Names, Visitor, absolute};
use crate::util::mutex::lock;
use rustix::fs::FileType;
use std::io;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Adds the entries that a walk finds to a snapshot, or only plans that.
pub(super) struct SnapshotVisitor<'a> {
    context: Context<'a>,
    stats: Mutex<Stats>,
    /// How many files are added together.
    group: usize,
    /// Something of the sources is missing, because it vanished or was replaced.
    is_torn: AtomicBool,
}

impl<'a> SnapshotVisitor<'a> {
    pub(super) fn new(context: Context<'a>) -> Self {
        let group = open_files::part(64, 1..=super::file::GROUP);
        SnapshotVisitor { context, stats: Mutex::default(), group, is_torn: AtomicBool::new(false) }
    }

    /// The counts so far.
    pub(super) fn stats(&self) -> Stats {
        Stats { excluded: self.context.filter.counts(), ..lock(&self.stats).clone() }
    }

    /// Whether something of the sources vanished or was replaced while it was read.
    pub(super) fn is_torn(&self) -> bool {
        self.is_torn.load(Ordering::Relaxed)
    }

    /// What the run saw of its sources, and what it looked at.
    pub(super) fn into_watch(self) -> (Option<Watch>, Option<Narrowing>) {
        (self.context.watch, self.context.narrowing)
    }

    /// The filesystems that the walk found, and those of records that were taken over.
    pub(super) fn origins(&self) -> Vec<Origin> {
        let mut origins = self.context.devices.origins();
        if let (Some(watch), Some(_), Some(previous)) = (self.watch(), self.narrowing(), self.context.previous) {
            origins.iter_mut().for_each(|origin| origin.dev = watch.number(origin.dev));
            origins.extend(previous.reader.origins());
            origins.sort_by_key(|origin| origin.dev);
            // The sort is stable: what this run found comes first.
            origins.dedup_by_key(|origin| origin.dev);
        }
        origins
    }

    /// The part of the sources that is looked at.
    pub(super) fn narrowing(&self) -> Option<&Narrowing> {
        self.context.narrowing.as_ref()
    }

    /// Notes what the run sees.
    pub(super) fn watch(&self) -> Option<&Watch> {
        self.context.watch.as_ref()
    }

    /// Where the snapshot is made; nowhere in a dry run.
    pub(super) fn staged(&self) -> Option<&Staged> {
        self.context.staged.as_ref()
    }

    /// After the walk: reports patterns that matched nothing. Patterns may match what a narrow walk did not look at.
    pub(super) fn report_unmatched(&self) {
        if self.narrowing().is_some_and(|narrowing| !narrowing.is_check) {
            return;
        }
        self.context.filter.report_unmatched(self.context.monitor);
    }

    fn count(&self, part: &Stats) {
        lock(&self.stats).add(part);
    }

    fn keep_empty(&self, parent: &Directory<StagedDirectory>, path: &[u8], status: &Status) -> Result<Option<Output>> {
        let mut part = Stats::default();
        let recorded = directory::keep_empty(&self.context, parent, path, status, &mut part)?;
        self.count(&part);
        Ok(recorded.map(output_of))
    }
}

impl Visitor for SnapshotVisitor<'_> {
    type Place = StagedDirectory;
    type Output = Output;

    fn enter(
        &self,
        directory: &Directory<()>,
        parent: Option<&Directory<StagedDirectory>>,
    ) -> Result<Option<(StagedDirectory, Output)>> {
        let mut part = Stats::default();
        if self.context.is_repository(&directory.status) {
            self.context.monitor.event(Event::RepositorySkipped(&absolute(&directory.path)));
            return Ok(None);
        }
        if directory.path.len() > LONGEST_PATH {
            let error = Error::failed("keep the directory").at(absolute(last(&directory.path)));
            let hint = format!("its path is longer than {} MiB", LONGEST_PATH >> 20);
            self.context.problem(&error.hint(hint), &mut part);
            self.count(&part);
            return Ok(None);
        }
        let Some((place, recorded)) = directory::enter(&self.context, directory, parent, &mut part)? else {
            self.context.filter.note_unreadable();
            self.count(&part);
            return Ok(None);
        };
        self.count(&part);
        if let Some(watch) = &self.context.watch {
            let narrowing = self.narrowing();
            let recorded = |dev| narrowing.and_then(|narrowing| narrowing.recorded(dev));
            let is_taken = |number| narrowing.is_some_and(|narrowing| narrowing.has_number(number));
            watch.enter(directory, parent, recorded, is_taken);
        }
        self.context.monitor.advance(Amount { files: 1, bytes: 0 });
        let output = Output { scope: place.scope().clone(), ..output_of(recorded) };
        Ok(Some((place, output)))
    }

    fn list(&self, directory: &Directory<()>, place: &StagedDirectory) -> (Names, Option<io::Error>) {
        let is_check = self.context.narrowing.as_ref().is_some_and(|narrowing| narrowing.is_check);
        if let (Scope::Only(names), false) = (place.scope(), is_check) {
            return (self.context.filter.among(directory, names.iter().map(Vec::as_slice)), None);
        }
        let (names, error) = self.context.filter.list(directory);
        if let (Some(previous), None) = (self.context.previous, &error)
            && let Some(vanished) = emptied::vanished_mount(&previous.reader, directory, &names)
        {
            let mut part = Stats::default();
            match self.context.options.allow_empty {
                true => self.context.monitor.event(Event::Accepted(&vanished)),
                false => self.context.problem(&vanished, &mut part),
            }
            self.count(&part);
        }
        (names, error)
    }

    fn approach(&self, parent: &Directory<StagedDirectory>, path: &[u8]) -> Result<ControlFlow<Option<Output>>> {
        if !self.context.filter.stops_at(parent, path) {
            return Ok(ControlFlow::Continue(()));
        }
        // The mount is not opened, but the mount point is kept: a restored tree has its mount points.
        let status = Status::at(&parent.fd, last(path)).ok().filter(is_directory);
        let output = status.map(|status| self.keep_empty(parent, path, &status)).transpose()?;
        Ok(ControlFlow::Break(output.flatten()))
    }

    fn batch(
        &self,
        directory: &Directory<StagedDirectory>,
        names: &mut dyn Iterator<Item = Name<'_>>,
    ) -> Result<Output> {
        let mut part = Stats::default();
        let output = entries::add(&self.context, directory, names, self.group, &mut part)?;
        self.count(&part);
        Ok(output)
    }

    fn close(&self, _: &[u8], place: &mut StagedDirectory) {
        place.close();
    }

    fn reopen(&self, path: &[u8], place: &mut StagedDirectory) -> rustix::io::Result<()> {
        match &self.context.staged {
            Some(staged) => place.reopen(&staged.reopener, path),
            None => Ok(()),
        }
    }

    fn leave(&self, directory: &Directory<StagedDirectory>) -> Result<()> {
        let mut part = Stats::default();
        directory::leave(&self.context, directory, &mut part)?;
        self.count(&part);
        Ok(())
    }

    fn incomplete(&self, error: Error) {
        self.context.filter.note_unreadable();
        let mut part = Stats::default();
        self.context.problem(&error, &mut part);
        self.count(&part);
    }

    fn unfound(&self, error: Error) -> Result<()> {
        Err(error.hint("nothing of it could be read: no snapshot was made"))
    }

    fn torn(&self, error: Error) -> Result<()> {
        self.is_torn.store(true, Ordering::Relaxed);
        self.incomplete(error);
        Ok(())
    }

    fn unreadable(
        &self,
        parent: Option<&Directory<StagedDirectory>>,
        path: &[u8],
        error: Error,
    ) -> Result<Option<Output>> {
        self.incomplete(error);
        let status = parent.and_then(|parent| Status::at(&parent.fd, last(path)).ok());
        let Some((parent, status)) = parent.zip(status).filter(|(_, status)| is_directory(status)) else {
            return Ok(None);
        };
        // Its content cannot be read, but the directory itself is kept.
        self.keep_empty(parent, path, &status)
    }
}

/// The output of a directory's own record.
fn output_of((record, change): Recorded) -> Output {
    Output { items: vec![(Item::Directory(record), change)], ..Output::default() }
}

fn is_directory(status: &Status) -> bool {
    status.file_type() == FileType::Directory
}

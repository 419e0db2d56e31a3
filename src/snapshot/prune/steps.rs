//! The steps of a removal that `prune` and `remove` have in common. Snapshots in use stay; the others are removed,
//! or in a dry run only counted. `until` removes them one by one.

use super::Meter;
use super::forecast::forecast;
use super::keep::Reason;
use super::space::wait_for_earlier;
use super::stats::{Counted, Freed, Row, Stats, Stopped};
use crate::error::{Error, ErrorKind, Result};
use crate::monitor::{Event, Monitor};
use crate::snapshot::measured::measured;
use crate::snapshot::repository::{self, Clearing, Leftover, Marks, Removed, Repository, SnapshotInfo, Unreported};
use crate::usage::{self, Bound};
use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

/// How many snapshots are removed together. Each takes an open file until it is gone.
const BATCH: usize = 64;

/// How to remove.
#[derive(Clone, Copy, Debug)]
pub(in crate::snapshot) struct Manner {
    /// Change nothing.
    pub dry_run: bool,
    /// Do not wait until the space of removed snapshots is free.
    pub no_wait: bool,
    /// How many threads delete.
    pub threads: Option<usize>,
}

/// A removal in progress.
pub(in crate::snapshot) struct Removal<'a> {
    pub(super) repository: &'a Repository,
    monitor: &'a dyn Monitor,
    threads: usize,
    pub(super) is_dry_run: bool,
    no_wait: bool,
    /// The snapshots that no rule keeps, and why each is kept nevertheless; `None`: it is gone.
    pub(super) results: HashMap<String, Option<Reason>>,
    /// Snapshots that another run has deleted meanwhile.
    pub(super) deleted: BTreeSet<String>,
    /// How exact the number of removed snapshots is.
    pub(super) bound: Bound,
    errors: u64,
    /// Whether something could not be cleared. The end of the run tries it again, with the space that was freed.
    has_leftovers: bool,
    /// Failures of the last emptying of the trash.
    stuck: u64,
    /// Whether a power cut may bring removed snapshots back. Then nothing else may be deleted.
    is_volatile: bool,
    /// The space that was freed.
    pub(super) freed: Freed,
    /// Keeps other runs away. Dropped at the end.
    _lock: Option<repository::Lock>,
}

impl<'a> Removal<'a> {
    /// Takes the repository's lock and finishes the work of killed runs, as far as possible. A dry run does neither.
    pub(in crate::snapshot) fn begin(
        repository: &'a Repository,
        manner: Manner,
        monitor: &'a dyn Monitor,
    ) -> Result<Removal<'a>> {
        let Manner { dry_run: is_dry_run, no_wait, threads } = manner;
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let threads = threads.unwrap_or((cores * 2).clamp(4, 32));
        let _lock = if is_dry_run { None } else { Some(repository.lock(monitor)?) };
        let mut removal = Removal {
            repository,
            monitor,
            threads,
            is_dry_run,
            no_wait,
            results: HashMap::new(),
            deleted: BTreeSet::new(),
            bound: Bound::Exact,
            errors: 0,
            has_leftovers: false,
            stuck: 0,
            is_volatile: false,
            freed: Freed::default(),
            _lock,
        };
        if !is_dry_run {
            removal.has_leftovers = !repository::try_clearing(repository, &useful(repository), threads, monitor)?;
            if removal.has_leftovers {
                removal.empty_trash()?;
            }
            let _ = repository::correct_latest(repository);
        }
        Ok(removal)
    }

    /// Reports and counts a failure.
    pub(in crate::snapshot) fn problem(&mut self, error: &Error) {
        self.monitor.problem(error);
        self.errors += 1;
    }

    /// Where it reports.
    pub(in crate::snapshot) fn monitor(&self) -> &'a dyn Monitor {
        self.monitor
    }

    /// Passes an event to the monitor.
    pub(in crate::snapshot) fn event(&self, event: Event<'_>) {
        self.monitor.event(event);
    }

    /// Reports that a snapshot was deleted by another run, which is possible in a dry run. It gets no row.
    pub(super) fn was_deleted(&mut self, name: &str) {
        self.event(Event::SnapshotNotMeasured(name));
        self.deleted.insert(name.to_string());
    }

    /// The tags and the pin of a snapshot. If they cannot be read, that is reported, and it counts as pinned.
    pub(in crate::snapshot) fn marks(&mut self, info: &SnapshotInfo) -> Marks {
        self.marks_of(&info.name, &info.header.tags)
    }

    /// The same for a snapshot with these tags in its manifest.
    pub(in crate::snapshot) fn marks_of(&mut self, name: &str, tags: &[String]) -> Marks {
        repository::marks(self.repository, name, tags).unwrap_or_else(|error| {
            self.problem(&error);
            Marks { tags: tags.to_vec(), pinned: true }
        })
    }

    /// Removes these snapshots, and counts the space that this frees.
    ///
    /// # Errors
    /// Only if the run is cancelled, or if a dry run cannot count. Give the result to [`finish`](Self::finish).
    pub(in crate::snapshot) fn remove(&mut self, names: &[String]) -> Result<()> {
        if self.is_dry_run {
            let names = self.not_in_use(names);
            self.freed = self.foretell(&names)?;
            return Ok(());
        }
        if names.is_empty() {
            return Ok(());
        }
        let mut meter = Meter::begin(self.repository, !self.no_wait, self.monitor);
        let removed = names.chunks(BATCH).try_for_each(|names| self.apply(names, &mut meter).map(|_| ()));
        self.freed = meter.freed(self.repository);
        removed
    }

    /// The rows with what became of them, and the sums. `removed` is the result of the removal.
    pub(in crate::snapshot) fn finish(
        mut self,
        mut rows: Vec<Row>,
        removed: Result<()>,
        begun: Instant,
    ) -> Result<Stats, Stopped> {
        let has_begun = !self.is_dry_run && !self.results.is_empty();
        let ended = removed.and_then(|()| self.clear_rest());
        rows.retain(|row| !self.deleted.contains(&row.name));
        for row in &mut rows {
            match self.results.remove(&row.name) {
                Some(None) => row.kept = false,
                Some(Some(reason)) => row.reasons.push(reason),
                None => {}
            }
        }
        let kept = rows.iter().filter(|row| row.kept).count() as u64;
        let removed = rows.len() as u64 - kept;
        let Removal { bound: removed_bound, freed, errors, .. } = self;
        let seconds = begun.elapsed().as_secs_f64();
        let stats = Stats { rows, kept, removed, removed_bound, freed, errors, seconds };
        match ended {
            Ok(()) => Ok(stats),
            Err(error) if has_begun => Err(Stopped::after(error, stats)),
            Err(error) => Err(error.into()),
        }
    }

    /// Clears what could not be cleared before, and reports what stays.
    fn clear_rest(&mut self) -> Result<()> {
        if !self.has_leftovers || self.is_volatile {
            return Ok(());
        }
        let clearing = Clearing::new(self.monitor);
        let cleared = repository::clear_leftovers(self.repository, &useful(self.repository), self.threads, &clearing);
        self.errors += clearing.errors();
        cleared
    }

    /// Removes snapshots, and waits until their space is free. Returns whether all their files are deleted.
    pub(super) fn apply(&mut self, names: &[String], meter: &mut Meter) -> Result<bool> {
        if self.is_volatile {
            // That was reported. A sync that succeeds now does not prove that the earlier changes are on the disk.
            self.keep_for(names, &Reason::Failed);
            return Ok(false);
        }
        let mut is_deleted = true;
        let mut rest = names.to_vec();
        while !rest.is_empty() {
            if self.monitor.is_cancelled() {
                return Err(Error::interrupted());
            }
            self.monitor.phase("removing", None);
            let removed = repository::remove(self.repository, &rest);
            let Removed { gone, subvolumes, in_use, failed, without_space, unsynced, is_volatile, has_rest } = removed;
            for name in in_use {
                self.keep_in_use(name);
            }
            for (name, error) in failed {
                self.fail(name, &error);
            }
            let mut has_progress = !gone.is_empty();
            self.results.extend(gone.into_iter().map(|name| (name, None)));
            unsynced.iter().for_each(|error| self.problem(error));
            self.is_volatile |= is_volatile;
            self.has_leftovers |= has_rest;
            if self.is_volatile {
                // The next run deletes their files, so there is no space for further renames.
                (is_deleted, has_progress) = (false, false);
                meter.expect_more();
            } else if has_progress {
                self.monitor.phase("deleting", None);
                is_deleted &= self.empty_trash().inspect_err(|_| meter.expect_more())?;
                meter.settle(self.repository, &subvolumes, self.monitor);
            }
            rest.clear();
            for (name, error) in without_space {
                if has_progress { rest.push(name) } else { self.fail(name, &error) }
            }
        }
        // Before space was freed, there may have been none for the link.
        if let Err(error) = repository::correct_latest(self.repository) {
            self.problem(&error);
        }
        Ok(is_deleted)
    }

    /// Empties the trash. Returns whether nothing stays that was not stuck there before. The end of the run reports
    /// what stays.
    ///
    /// # Errors
    /// Only if the run is cancelled.
    fn empty_trash(&mut self) -> Result<bool> {
        let stuck = match repository::empty_trash(self.repository, self.threads, &Unreported(self.monitor)) {
            Ok(emptied) => emptied.errors,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(_) => {
                self.has_leftovers = true;
                return Ok(false);
            }
        };
        // If an old entry went and a new one is stuck, this is wrong: a removal until enough space is free may then
        // remove a snapshot too many. Only meddling in the trash meanwhile leads to that.
        let is_deleted = stuck <= self.stuck;
        self.stuck = stuck;
        self.has_leftovers |= stuck > 0;
        Ok(is_deleted)
    }

    fn fail(&mut self, name: String, error: &Error) {
        self.problem(error);
        self.results.insert(name, Some(Reason::Failed));
    }

    fn keep_in_use(&mut self, name: String) {
        let error = Error::failed("remove the snapshot").at(self.repository.path().join(&name));
        self.problem(&error.hint("another process reads it; remove it later").with_code("in-use"));
        self.results.insert(name, Some(Reason::InUse));
    }

    pub(super) fn keep_for(&mut self, names: &[String], reason: &Reason) {
        self.results.extend(names.iter().map(|name| (name.clone(), Some(reason.clone()))));
    }

    /// The snapshots that nobody reads; the others are reported and kept.
    pub(super) fn not_in_use(&mut self, names: &[String]) -> Vec<String> {
        let (used, free): (Vec<_>, Vec<_>) =
            names.iter().cloned().partition(|name| repository::is_in_use(self.repository, name));
        for name in used {
            self.keep_in_use(name);
        }
        free
    }

    /// Counts what removing these snapshots would free, and marks them as removed.
    pub(super) fn foretell(&mut self, names: &[String]) -> Result<Freed> {
        self.results.extend(names.iter().map(|name| (name.clone(), None)));
        let names: Vec<String> = names.iter().filter(|name| !self.deleted.contains(*name)).cloned().collect();
        let options = usage::Options { threads: Some(self.threads), ..usage::Options::default() };
        // Whoever compares the figure with the free space should not see the space of earlier deletions.
        wait_for_earlier(self.repository, self.monitor);
        let (there, (freed, errors)) = measured(self.repository, names.clone(), self.monitor, |names, monitor| {
            forecast(self.repository, names, &options, monitor)
        })?;
        self.deleted.extend(names.into_iter().filter(|name| !there.contains(name)));
        self.errors += errors;
        let usage::Freed { bytes, metadata_bytes, bound, .. } = freed;
        Ok(Freed { bytes, metadata_bytes, bound, counted: Counted::Extents })
    }
}

/// What a killed snapshot has finished, which stays for the next one. If it cannot, because the disk is full, the space
/// matters more.
fn useful(repository: &Repository) -> Vec<Leftover> {
    repository::leftovers(repository).unwrap_or_default()
}

//! Entries that wait to be restored together, on all threads, and directories that end after these entries.

use super::context::Context;
use super::end::End;
use super::job::Job;
use super::links::Links;
use super::outcome::{self, Outcome};
use super::place::Place;
use super::stats::Stats;
use super::{directory, entry};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::open_files;
use crate::monitor::Change;
use crate::snapshot::manifest::Entry;
use crate::tree::writer::{Attempt, Failure, Run as _, Target as _};
use crate::util::pool;
use std::path::PathBuf;
use std::sync::Arc;

/// How many entries are restored together.
const ENTRIES: usize = 4096;
/// About how many bytes of records a batch holds: a record may have megabytes of attributes.
const BYTES: usize = 16 << 20;
/// How many directories a batch holds open.
const DIRECTORIES: usize = 128;

enum Waiting {
    Entry(Arc<Place>, Entry),
    /// A line of the plan, in its place.
    Line(Change, PathBuf),
}

/// The waiting work. Memory and descriptors are bounded: [`Batch::has_many_directories`] and
/// [`Batch::has_many_entries`] request a flush.
pub(super) struct Batch {
    jobs: Vec<Waiting>,
    /// Bytes of the records of the waiting entries.
    bytes: usize,
    ends: Vec<(Arc<Place>, End)>,
    /// Directories that were opened since the last flush.
    opened: usize,
    links: Links,
    /// [`DIRECTORIES`], or fewer if this process may open few files.
    most: usize,
}

impl Batch {
    /// An empty batch.
    pub(super) fn new(links: Links) -> Batch {
        let most = open_files::part(10, 2..=DIRECTORIES);
        Batch { jobs: Vec::new(), bytes: 0, ends: Vec::new(), opened: 0, links, most }
    }

    /// Adds an entry.
    pub(super) fn entry(&mut self, place: Arc<Place>, entry: Entry) {
        self.bytes += entry.bytes();
        self.jobs.push(Waiting::Entry(place, entry));
    }

    /// Adds a line of the plan.
    pub(super) fn line(&mut self, change: Change, path: PathBuf) {
        self.jobs.push(Waiting::Line(change, path));
    }

    /// Adds a directory that ends when all waiting work is done.
    pub(super) fn end(&mut self, place: Arc<Place>, end: End) {
        self.ends.push((place, end));
    }

    /// Counts a directory that was opened.
    pub(super) fn opened(&mut self) {
        self.opened += 1;
    }

    /// Whether no further directory may be opened before a flush.
    pub(super) fn has_many_directories(&self) -> bool {
        self.opened.max(self.ends.len()) >= self.most
    }

    /// Whether no further entry may be added before a flush.
    pub(super) fn has_many_entries(&self) -> bool {
        self.jobs.len() >= ENTRIES || self.bytes >= BYTES
    }

    /// Restores the entries that wait, then ends the directories that wait for them.
    ///
    /// # Errors
    /// The error that ends the run.
    pub(super) fn flush(&mut self, context: &Context<'_>, stats: &mut Stats) -> Result<()> {
        let jobs = std::mem::take(&mut self.jobs);
        self.bytes = 0;
        let restored: Vec<Restored> = pool::map(&jobs, |job| alone(context, job));
        // Also after an error: the work that was done meanwhile counts.
        let mut fatal = None;
        for (job, restored) in jobs.into_iter().zip(restored) {
            let (place, entry) = match job {
                Waiting::Entry(place, entry) => (place, entry),
                Waiting::Line(change, path) => {
                    context.monitor.planned(change, &path);
                    continue;
                }
            };
            let outcome = match restored {
                Restored::Tried(outcome) => outcome,
                Restored::NotYet if fatal.is_some() => continue,
                // The names of one inode are restored one after the other.
                Restored::NotYet => self
                    .links
                    .restore(context, &place, &entry)
                    .inspect(|outcome| outcome::advance(context, &outcome.stats)),
            };
            match outcome {
                Ok(outcome) => {
                    stats.add(&outcome.stats);
                    if let Some(change) = outcome.change.filter(|_| context.options.dry_run) {
                        context.monitor.planned(change, &context.shown(&place.join(&entry.name)));
                    }
                }
                Err(failure) => match failure.skipped() {
                    Ok(error) => {
                        stats.damaged += u64::from(error.kind() == ErrorKind::Damage);
                        stats.errors += 1;
                        context.monitor.problem(&error);
                    }
                    Err(error) => {
                        fatal.get_or_insert(error);
                    }
                },
            }
        }
        if let Some(error) = fatal {
            return Err(error);
        }
        for (place, end) in std::mem::take(&mut self.ends) {
            match place.dir.is_waiting() {
                true => context.after_sync(Job::End(place, end))?,
                false => directory::end(context, &place, end, stats)?,
            }
        }
        self.opened = 0;
        Ok(())
    }

    /// Runs the last flush.
    ///
    /// # Errors
    /// The error that ends the run.
    pub(super) fn finish(mut self, context: &Context<'_>, stats: &mut Stats) -> Result<()> {
        self.flush(context, stats)?;
        stats.errors += self.links.finish(context);
        Ok(())
    }
}

/// The result of an entry on some thread.
enum Restored {
    Tried(Attempt<Outcome>),
    /// It has several names, or is a line of the plan.
    NotYet,
}

/// Restores an entry that has one name.
fn alone(context: &Context<'_>, job: &Waiting) -> Restored {
    match job {
        Waiting::Entry(_, entry) if entry.meta.nlink < 2 && context.monitor.is_cancelled() => {
            Restored::Tried(Err(Failure::Fatal(Error::interrupted())))
        }
        Waiting::Entry(place, entry) if entry.meta.nlink < 2 => {
            let outcome = entry::restore(context, place, entry);
            Restored::Tried(outcome.inspect(|outcome| outcome::advance(context, &outcome.stats)))
        }
        _ => Restored::NotYet,
    }
}

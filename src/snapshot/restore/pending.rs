//! What waits until data is on the disk: the times of files that were written, names that replace others, and what must come
//! after these. See `staging::writeback`.

use super::Context;
use super::directory::{self, End};
use super::outcome;
use super::place::Place;
use super::seal;
use crate::error::{Error, Result};
use crate::fs::metadata::FileAttr;
use crate::monitor::Change;
use crate::tree::walk::PathNode;
use crate::tree::writer::{Room, Synced, Unsynced};
use crate::util::mutex::lock;
use std::sync::Arc;

/// A job for after the next sync.
pub(super) enum Pending {
    /// A file gets its times, the name of the file that it replaces, and what forbids changes.
    File {
        /// The file.
        file: Unsynced,
        /// What it is sealed with.
        seal: Option<FileAttr>,
        /// What is counted when it has its name; `None`: it had one from the beginning.
        change: Option<Change>,
        /// Its path in the snapshot.
        path: Arc<PathNode>,
    },
    /// A directory ends, since names in it were replaced.
    End(Arc<Place>, End),
}

impl Pending {
    /// Does the job.
    fn finish(self, context: &Context<'_>, synced: &Synced) {
        match self {
            Pending::File { file, seal, change, path } => match file.settle(synced) {
                Ok(file) => {
                    change.inspect(|change| context.done.count(*change));
                    let errors = seal.map_or(0, |seal| seal::file(context, file, seal, || context.shown(&path.path())));
                    lock(&context.late).errors += errors;
                }
                Err(errno) => {
                    let failure = outcome::failure_at(context, &context.shown(&path.path()), "put in place", errno);
                    context.monitor.problem(&failure.into_error());
                    lock(&context.late).errors += 1;
                }
            },
            Pending::End(place, end) => {
                let mut stats = super::Stats::default();
                if let Err(error) = directory::end(context, &place, end, &mut stats) {
                    let _ = context.fatal.set(error);
                }
                lock(&context.late).add(&stats);
            }
        }
    }
}

impl Context<'_> {
    /// Has a job done after the next sync. Where too many wait, this waits for a sync.
    ///
    /// # Errors
    /// That of the sync.
    pub(super) fn after_sync(&self, job: Pending) -> Result<()> {
        match self.writeback.add(job) {
            Room::Left => Ok(()),
            Room::Full => self.writeback.round_if_full(|| self.sync(), |job, synced| job.finish(self, synced)),
        }
    }

    /// Syncs, and does all jobs that wait. How many these were.
    pub(super) fn round(&self) -> Result<usize> {
        self.writeback.round(|| self.sync(), |job, synced| job.finish(self, synced))
    }

    /// Does rounds until no job is left.
    pub(super) fn settle(&self) -> Result<()> {
        while self.round()? > 0 {}
        Ok(())
    }

    fn sync(&self) -> Result<Synced> {
        self.devices.sync(&self.options.target)
    }

    /// Whether the run may go on.
    ///
    /// # Errors
    /// If the monitor asks to stop, or a job that waited for a sync ended the run.
    pub(super) fn check(&self) -> Result<()> {
        match self.fatal.get() {
            _ if self.monitor.is_cancelled() => Err(Error::interrupted()),
            Some(_) => Err(Error::failed("go on")),
            None => self.devices.check(&self.options.target),
        }
    }
}

//! A run that writes into a tree: it adds jobs that wait for a sync, and does them in rounds. See `after_sync`.

use super::{AfterSync, Room, Synced, Target};
use crate::error::Result;

/// A run that writes into a tree.
pub(crate) trait Run: Target {
    /// What it does after a sync.
    type Job: Send;

    /// The jobs that wait.
    fn waiting(&self) -> &AfterSync<Self::Job>;

    /// Does a job after a sync that succeeded.
    fn finish(&self, job: Self::Job, synced: &Synced);

    /// Adds a job for after the next sync. If too many jobs wait, this does a round.
    ///
    /// # Errors
    /// The sync failed.
    fn after_sync(&self, job: Self::Job) -> Result<()> {
        match self.waiting().add(job) {
            Room::Left => Ok(()),
            Room::Full => self.waiting().round_if_full(|| self.sync(), |job, synced| self.finish(job, synced)),
        }
    }

    /// Syncs, and does the jobs that waited for it. Returns their number.
    ///
    /// # Errors
    /// The sync failed: then no job is done any more in this run.
    fn round(&self) -> Result<usize> {
        self.waiting().round(|| self.sync(), |job, synced| self.finish(job, synced))
    }

    /// Does rounds until no job is left, including the jobs that jobs add.
    ///
    /// # Errors
    /// See [`Run::round`].
    fn settle(&self) -> Result<()> {
        while self.round()? > 0 {}
        Ok(())
    }

    /// Syncs all filesystems that were written to.
    ///
    /// # Errors
    /// After the first failure, every call fails.
    fn sync(&self) -> Result<Synced> {
        self.devices().sync(self.path())
    }
}

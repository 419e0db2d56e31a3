//! The changes of a restore so far. Each is counted at the moment of the change, so a run that ends early can report
//! them.

use super::stats::Stats;
use crate::monitor::Change;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counts, shared by any number of threads.
#[derive(Debug, Default)]
pub(super) struct Done {
    made: AtomicU64,
    replaced: AtomicU64,
    mended: AtomicU64,
    deleted: AtomicU64,
}

impl Done {
    /// Counts a change of an entry; in a dry run, a planned change.
    pub(super) fn count(&self, change: Change) {
        let counter = match change {
            Change::Added | Change::Renamed => &self.made,
            Change::Content | Change::Rotten | Change::Type => &self.replaced,
            Change::Metadata => &self.mended,
            Change::Removed => &self.deleted,
            // Nothing was done to it.
            Change::Unreadable => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Puts the counts into the stats.
    pub(super) fn fill(&self, stats: &mut Stats) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        stats.new_entries = count(&self.made);
        stats.replaced_entries = count(&self.replaced);
        stats.metadata_entries = count(&self.mended);
        stats.deleted = count(&self.deleted);
    }
}

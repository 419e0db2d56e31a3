//! What a restore has changed so far, counted at the moment of each change: so a run that ends early can report it.

use super::stats::Stats;
use crate::monitor::Change;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counts, by any number of threads.
#[derive(Debug, Default)]
pub(super) struct Done {
    made: AtomicU64,
    replaced: AtomicU64,
    mended: AtomicU64,
    deleted: AtomicU64,
}

impl Done {
    /// An entry was changed so, or in a dry run would be.
    pub(super) fn count(&self, change: Change) {
        let counter = match change {
            Change::Added => &self.made,
            Change::Content | Change::Type => &self.replaced,
            Change::Metadata => &self.mended,
            Change::Removed => &self.deleted,
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

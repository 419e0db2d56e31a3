//! The counts of a comparison.

use crate::monitor::Change;

/// The differences, by kind. The names are those of the JSON summary.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The name of the old snapshot.
    pub old: String,
    /// The name of the new snapshot, or `live`.
    pub new: String,
    /// Entries that only the new snapshot has.
    pub added: u64,
    /// Entries that only the old snapshot has.
    pub removed: u64,
    /// Entries with another content.
    pub content: u64,
    /// Entries with other metadata only.
    pub metadata: u64,
    /// Entries of another type.
    pub kind: u64,
    /// Entries with another path. Everything in a renamed directory counts only if it differs otherwise.
    pub renamed: u64,
    /// Files with another content although nobody wrote to them, as size and times show.
    pub rotten: u64,
    /// Entries that the new snapshot lacks because its run skipped them with an error.
    pub unreadable: u64,
    /// Whether the old snapshot is incomplete: its run skipped entries with an error.
    pub old_incomplete: bool,
    /// Whether the new snapshot is incomplete.
    pub new_incomplete: bool,
    /// Bytes read from live files.
    pub read_bytes: u64,
    /// Parts that could not be compared; each was reported to the monitor.
    pub errors: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

impl Stats {
    /// The number of differences.
    pub fn changes(&self) -> u64 {
        let Stats { added, removed, content, metadata, kind, renamed, rotten, unreadable, .. } = self;
        [added, removed, content, metadata, kind, renamed, rotten, unreadable].into_iter().sum()
    }

    pub(super) fn count(&mut self, change: Change) {
        *match change {
            Change::Added => &mut self.added,
            Change::Removed => &mut self.removed,
            Change::Content => &mut self.content,
            Change::Metadata => &mut self.metadata,
            Change::Type => &mut self.kind,
            Change::Renamed => &mut self.renamed,
            Change::Rotten => &mut self.rotten,
            Change::Unreadable => &mut self.unreadable,
        } += 1;
    }
}

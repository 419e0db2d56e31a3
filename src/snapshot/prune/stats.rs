//! The results of `prune` and `remove`.

use super::keep::Reason;
use crate::snapshot::manifest::Time;
use crate::usage::Bound;

/// A snapshot, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The time when it was begun; `None` if its manifest is damaged.
    pub created: Option<Time>,
    /// Whether it still exists.
    pub kept: bool,
    /// Why it is kept. Empty if it is removed.
    pub reasons: Vec<Reason>,
}

/// How freed space was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counted {
    /// From extents and inodes: those that nothing else holds.
    #[default]
    Extents,
    /// By the free space of the filesystem before and after, which includes the changes that others made meanwhile.
    FreeSpace,
}

/// Space that is freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Freed {
    /// Bytes on the disk.
    pub bytes: u64,
    /// The part of `bytes` in Btrfs's own trees, if it was counted from extents.
    pub metadata_bytes: u64,
    /// How exact `bytes` is.
    pub bound: Bound,
    /// How it was counted.
    pub counted: Counted,
}

/// A removal that ended early: the reason, and what had become of the snapshots by then. Those that it had not come to
/// are kept without a reason.
pub type Stopped = crate::error::Stopped<Stats>;

/// The snapshots and the sums.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// `prune`: all snapshots, oldest first; those with a damaged manifest precede them. `remove`: those that were
    /// named.
    pub rows: Vec<Row>,
    /// The number of rows that were kept.
    pub kept: u64,
    /// The number of rows that were removed, or in a dry run would be.
    pub removed: u64,
    /// How exact `removed` is. A dry run that should free space may not know the exact space that a snapshot frees:
    /// then it is at most this number.
    pub removed_bound: Bound,
    /// The space that was freed, or in a dry run would be.
    pub freed: Freed,
    /// Failures; each was reported to the monitor.
    pub errors: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

//! The options of a snapshot.

use crate::tree::exclude;

/// When the content of files is hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hash {
    /// New and changed files.
    #[default]
    New,
    /// Never: no data is read when files are cloned.
    None,
}

/// Whether the tree may be a Btrfs subvolume that begins as a snapshot of the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subvolumes {
    /// If possible. Otherwise every file is cloned by itself, which is slower and gives the same tree and manifest.
    #[default]
    Auto,
    /// Never.
    Never,
}

/// How a file that has not changed since the last snapshot is added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unchanged {
    /// As a file of its own that shares the data.
    #[default]
    Clone,
    /// As another hard link to the last snapshot's file, if possible.
    Hardlink,
}

/// Options of [`create`](super::create).
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// The snapshot's name; by default the time in UTC, as `2026-11-20T020000Z`.
    pub name: Option<String>,
    /// The snapshot's tags.
    pub tags: Vec<String>,
    /// The snapshot to compare with, as an `ID`; by default the newest of the same sources.
    pub parent: Option<String>,
    /// Entries of the sources that are skipped.
    pub excludes: exclude::Options,
    /// When content is hashed.
    pub hash: Hash,
    /// Whether sources on Btrfs are read from a frozen snapshot of their subvolume. A dry run freezes nothing.
    pub freeze: bool,
    /// Whether the tree may be a Btrfs subvolume.
    pub subvolumes: Subvolumes,
    /// How unchanged files are added.
    pub unchanged: Unchanged,
    /// The number of threads; by default it depends on the work and the number of cores.
    pub threads: Option<usize>,
    /// How many runs in a row may look only at what changed, as the transactions of Btrfs show it; by default 29. The
    /// next one looks at everything and reports what a run of that kind would have missed.
    pub narrow_walks: Option<u64>,
    /// Whether a source may be empty although it had files in its last snapshot.
    pub allow_empty: bool,
    /// Only report to the monitor what would be done.
    pub dry_run: bool,
}

impl Options {
    /// How many threads walk. If content is read, the device's queue is the limit, not the cores. If only names and
    /// inodes are read, the processor is the limit, and more threads than the writers and as many readers slow the run
    /// down (docs/benchmarks.md).
    pub(super) fn threads_for(&self, reads_content: bool) -> usize {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let best = if reads_content { (cores * 4).clamp(8, 32) } else { (cores * 2).clamp(4, 32) };
        self.threads.unwrap_or(best)
    }
}

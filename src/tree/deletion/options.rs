//! The options of an emptying of a trash, and its counts.

/// How to empty a trash.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// The number of threads; by default those of the calling pool, or outside of a pool the calling thread.
    pub threads: Option<usize>,
    /// Whether Btrfs subvolumes are deleted too, including read-only ones. Otherwise they are kept and reported as
    /// errors.
    pub subvolumes: bool,
}

/// The number of deleted entries.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stats {
    /// Directories.
    pub dirs: u64,
    /// Everything else.
    pub files: u64,
    /// Entries that could not be deleted and are still there; each was reported to the monitor.
    pub errors: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

//! The options of a verification.

use std::path::PathBuf;

/// Options of [`verify`](super::verify).
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// Compare only the status of entries, and read no content.
    pub quick: bool,
    /// Read only this percentage of the content, above 0 and at most 100: another part in each run, until all of it was
    /// read. The next run continues where this one ends, if this one verified all snapshots.
    pub read: Option<f64>,
    /// Measure whether files share their extents as the manifests say.
    pub sharing: bool,
    /// Replace damaged files by sound copies from here. Takes the repository's lock. Not with `quick`.
    pub repair_from: Option<RepairFrom>,
    /// How many threads work. By default many for small files, and a few for a large one.
    pub threads: Option<usize>,
}

/// Where a repair takes sound content from. A copy is used only if it has the recorded hash.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairFrom {
    /// A snapshot of the same repository, by its ID.
    Snapshot(String),
    /// A directory that has the sources below their absolute paths: `/`, or the tree of a snapshot of another
    /// repository.
    Directory(PathBuf),
}

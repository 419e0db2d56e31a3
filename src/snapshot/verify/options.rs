//! The options of a verification.

/// Options of [`verify`](super::verify).
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// Compare only the status of entries, and read no content.
    pub quick: bool,
    /// Read only this percentage of the content, above 0 and at most 100: another part in each run, until all of it was
    /// read. The next run continues where this one ends, if this one verified all snapshots.
    pub read: Option<f64>,
    /// Measure whether files share their extents as the manifests say.
    pub sharing: bool,
    /// How many threads work. By default many for small files, and a few for a large one.
    pub threads: Option<usize>,
}

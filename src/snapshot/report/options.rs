//! The options of a report.

use crate::snapshot::prune::Keep;

/// Options of [`report`](super::report()).
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// Measure what removing snapshots would free. This reads the extents of all files.
    pub measure: bool,
    /// The rules of a prune: the report has the snapshots that it would remove. Without a rule, the report has what
    /// removing all but the newest of each group would free.
    pub keep: Keep,
    /// How many snapshots are compared with the one before: the newest ones.
    pub compared: usize,
    /// How many of the largest files are shown with their versions.
    pub files: usize,
    /// The time zone of the days, as `Europe/Berlin`. By default the local one, or UTC if the system has none.
    pub time_zone: Option<String>,
    /// Fail if the local time zone cannot be found, instead of using UTC.
    pub require_local_time: bool,
    /// How many threads measure; by default as many as suit the device.
    pub threads: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            measure: true,
            keep: Keep::default(),
            compared: 30,
            files: 4,
            time_zone: None,
            require_local_time: false,
            threads: None,
        }
    }
}

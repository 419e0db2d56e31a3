//! The options of a dedupe run.

use super::ranges;
use crate::tree::exclude;
use std::path::PathBuf;
use std::time::Duration;

/// Exclusions, and how to work.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// Files and directories to exclude.
    pub excludes: exclude::Options,
    /// Where the results are kept for the next run.
    pub cache: CacheChoice,
    /// Start no new work after this time.
    pub max_time: Option<Duration>,
    /// Only report the expected result.
    pub dry_run: bool,
    /// Equal ranges of files that differ.
    pub ranges: ranges::Options,
    /// The number of threads; by default each step chooses.
    pub threads: Option<usize>,
}

/// Where a run keeps its cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheChoice {
    /// In the user's cache directory.
    Usual,
    /// In this file.
    File(PathBuf),
    /// Nowhere.
    #[default]
    None,
}

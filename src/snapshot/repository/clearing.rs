//! How leftovers are cleared: what cannot be cleared is reported and counted, and stays for the next run. It blocks no
//! run.

use crate::error::{Error, Result};
use crate::monitor::Monitor;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clearing in progress. Its steps get it instead of returning errors, so none of them can end a run. It is the
/// monitor of a step that reports its errors itself.
pub(crate) struct Clearing<'a> {
    monitor: &'a dyn Monitor,
    errors: AtomicU64,
}

impl<'a> Clearing<'a> {
    pub(crate) fn new(monitor: &'a dyn Monitor) -> Clearing<'a> {
        Clearing { monitor, errors: AtomicU64::new(0) }
    }

    /// The value of a step. An error is reported and counted.
    pub(super) fn note<T>(&self, step: Result<T>) -> Option<T> {
        step.inspect_err(|error| self.problem(error)).ok()
    }

    /// How many errors were reported.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }
}

impl Monitor for Clearing<'_> {
    fn inner(&self) -> Option<&dyn Monitor> {
        Some(self.monitor)
    }

    fn problem(&self, error: &Error) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.monitor.problem(error);
    }
}

/// A monitor without problems, for a clearing that is tried again before the run ends.
pub(crate) struct Unreported<'a>(pub(crate) &'a dyn Monitor);

impl Monitor for Unreported<'_> {
    fn inner(&self) -> Option<&dyn Monitor> {
        Some(self.0)
    }

    fn problem(&self, _: &Error) {}
}

//! How leftovers are cleared: what cannot be cleared is reported and counted, and stays for the next run. It blocks no
//! run.

use crate::error::{Error, Result};
use crate::monitor::{Amount, Event, Monitor};

/// A clearing in progress. Its steps get it instead of returning errors, so none of them can end a run.
pub(crate) struct Clearing<'a> {
    monitor: &'a dyn Monitor,
    errors: u64,
}

impl<'a> Clearing<'a> {
    pub(crate) fn new(monitor: &'a dyn Monitor) -> Clearing<'a> {
        Clearing { monitor, errors: 0 }
    }

    /// The value of a step. An error is reported and counted.
    pub(super) fn note<T>(&mut self, step: Result<T>) -> Option<T> {
        step.inspect_err(|error| {
            self.monitor.problem(error);
            self.errors += 1;
        })
        .ok()
    }

    /// How many errors were reported.
    pub(crate) fn errors(&self) -> u64 {
        self.errors
    }
}

/// A monitor without problems, for a clearing that is tried again before the run ends.
pub(crate) struct Unreported<'a>(pub(crate) &'a dyn Monitor);

impl Monitor for Unreported<'_> {
    fn phase(&self, name: &str, expected: Option<Amount>) {
        self.0.phase(name, expected);
    }

    fn advance(&self, done: Amount) {
        self.0.advance(done);
    }

    fn problem(&self, _: &Error) {}

    fn event(&self, event: Event<'_>) {
        self.0.event(event);
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

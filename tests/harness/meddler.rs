//! Another process, simulated: it interferes once during a run, or in a thread of the test until it is stopped.

use pleach::error::Error;
use pleach::monitor::{Amount, Event, Monitor};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once};

/// Sets a flag when it is dropped, also by a panic. Otherwise threads that work until the flag is set would not end,
/// and neither would the failed test.
pub(crate) struct Stop<'a>(pub(crate) &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The moment at which it interferes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Some of a file's content was copied.
    Copying,
    /// All files are made, and wait for the sync.
    Syncing,
    /// All copies are complete, and are read again.
    Verifying,
    /// It was decided to look only at what changed, and the walk has not begun.
    Narrowing,
}

/// Interferes, and keeps the reported problems.
pub(crate) struct Meddler<F> {
    when: When,
    once: Once,
    meddle: F,
    problems: Mutex<Vec<String>>,
}

impl<F: Fn() + Sync> Meddler<F> {
    pub(crate) fn new(when: When, meddle: F) -> Meddler<F> {
        Meddler { when, once: Once::new(), meddle, problems: Mutex::default() }
    }

    /// The reported problems; asserts that it did interfere.
    #[track_caller]
    pub(crate) fn problems(self) -> Vec<String> {
        assert!(self.once.is_completed(), "the moment {:?} never came", self.when);
        self.problems.into_inner().expect("no other thread panicked")
    }
}

impl<F: Fn() + Sync> Monitor for Meddler<F> {
    fn problem(&self, error: &Error) {
        self.problems.lock().expect("no other thread panicked").push(error.to_string());
    }

    fn advance(&self, done: Amount) {
        if self.when == When::Copying && done.bytes > 0 {
            self.once.call_once(&self.meddle);
        }
    }

    fn event(&self, event: Event<'_>) {
        if self.when == When::Narrowing && matches!(event, Event::ChangesOnly { .. }) {
            self.once.call_once(&self.meddle);
        }
    }

    fn phase(&self, name: &str, _: Option<Amount>) {
        let is_now = match self.when {
            When::Syncing => name == "syncing",
            When::Verifying => name == "verifying",
            When::Copying | When::Narrowing => false,
        };
        if is_now {
            self.once.call_once(&self.meddle);
        }
    }
}

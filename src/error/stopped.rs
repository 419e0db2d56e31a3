//! A run that ended early: why, and what it had done by then.

use super::Error;
use std::fmt;

/// A run that ended before it was done.
#[derive(Debug)]
pub struct Stopped<S> {
    /// Why it ended.
    pub error: Error,
    /// What it had done by then; `None`: it had not begun.
    pub stats: Option<Box<S>>,
}

impl<S> Stopped<S> {
    /// A run that had done this.
    pub(crate) fn after(error: Error, stats: S) -> Self {
        Stopped { error, stats: Some(Box::new(stats)) }
    }
}

impl<S> From<Error> for Stopped<S> {
    fn from(error: Error) -> Self {
        Stopped { error, stats: None }
    }
}

impl<S> From<Stopped<S>> for Error {
    fn from(stopped: Stopped<S>) -> Error {
        stopped.error
    }
}

impl<S> fmt::Display for Stopped<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<S: fmt::Debug> std::error::Error for Stopped<S> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

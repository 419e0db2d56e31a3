//! Why an entry was not written, and whether the run continues. `target` decides what a failed call means.

use crate::error::{Error, Result};

/// Why an entry was not written.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The run ends.
    Fatal(Error),
    /// The entry is skipped.
    Entry(Error),
    /// The entry is skipped because somebody else created or changed an entry in its place meanwhile.
    Meanwhile(Error),
}

/// The result of writing an entry.
pub(crate) type Attempt<T> = std::result::Result<T, Failure>;

impl Failure {
    /// The error, whatever its consequence.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Failure::Fatal(error) | Failure::Entry(error) | Failure::Meanwhile(error) => error,
        }
    }

    /// Why the entry is skipped, for the report.
    ///
    /// # Errors
    /// The error that ends the run.
    pub(crate) fn skipped(self) -> Result<Error> {
        match self {
            Failure::Fatal(error) => Err(error),
            Failure::Entry(error) | Failure::Meanwhile(error) => Ok(error),
        }
    }
}

//! The list of the commands of a job that have ended with success: a file with a line for each.

use crate::harness::write;
use std::fs;
use std::path::PathBuf;

/// The list.
pub(super) struct Done(PathBuf);

impl Done {
    pub(super) fn at(path: PathBuf) -> Done {
        Done(path)
    }

    /// Its path, where the job adds lines.
    pub(super) fn path(&self) -> &PathBuf {
        &self.0
    }

    /// Empties the list.
    pub(super) fn begin(&self) {
        write(&self.0, b"");
    }

    /// The number of lines.
    pub(super) fn count(&self) -> usize {
        fs::read_to_string(&self.0).expect("the list can be read").lines().count()
    }
}

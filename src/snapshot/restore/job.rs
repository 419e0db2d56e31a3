//! The jobs of a restore that wait for a sync, as data. `pending` runs them.

use super::end::End;
use super::place::Place;
use crate::monitor::Change;
use crate::tree::walk::PathNode;
use crate::tree::writer::Unsynced;
use std::sync::Arc;

/// A job for after the next sync.
pub(super) enum Job {
    /// A file gets its times, the name of the file that it replaces, and the flags that forbid changes.
    File {
        /// The file.
        file: Unsynced,
        /// The change to count when it has its name. `None` if it had a name from the beginning.
        change: Option<Change>,
        /// Its path in the snapshot.
        path: Arc<PathNode>,
    },
    /// A directory ends, since names in it were replaced.
    End(Arc<Place>, End),
}

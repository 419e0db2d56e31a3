//! The jobs of a restore that wait for a sync, as data. `pending` does them.

use super::end::End;
use super::place::Place;
use crate::fs::metadata::FileAttr;
use crate::monitor::Change;
use crate::tree::walk::PathNode;
use crate::tree::writer::Unsynced;
use std::sync::Arc;

/// A job for after the next sync.
pub(super) enum Job {
    /// A file gets its times, the name of the file that it replaces, and what forbids changes.
    File {
        /// The file.
        file: Unsynced,
        /// What it is sealed with.
        seal: Option<FileAttr>,
        /// What is counted when it has its name; `None`: it had one from the beginning.
        change: Option<Change>,
        /// Its path in the snapshot.
        path: Arc<PathNode>,
    },
    /// A directory ends, since names in it were replaced.
    End(Arc<Place>, End),
}

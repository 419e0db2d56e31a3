//! The changes to a directory when everything in it is done, as data. `directory` applies them.

use super::wanted_names::WantedNames;
use crate::snapshot::manifest::Meta;

/// The changes to a directory when everything in it is done.
pub(super) struct End {
    /// The metadata to set, unless it stays unchanged.
    pub(super) meta: Option<Meta>,
    /// It was asked for, and not only made on the way: then metadata that it cannot take is an error.
    pub(super) is_wanted: bool,
    /// Entries that the snapshot does not have are removed.
    pub(super) delete: bool,
    /// The names that the snapshot has in it, if entries must be removed. `None` if they must be looked up.
    pub(super) known: Option<WantedNames>,
}

impl End {
    /// Nothing changes.
    pub(super) fn nothing() -> End {
        End { meta: None, is_wanted: false, delete: false, known: None }
    }

    /// Whether anything changes.
    pub(super) fn is_something(&self) -> bool {
        self.meta.is_some() || self.delete
    }
}

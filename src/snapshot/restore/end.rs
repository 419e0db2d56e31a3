//! What a directory gets when everything in it is done, as data. `directory` gives it that.

use super::wanted_names::WantedNames;
use crate::snapshot::manifest::Meta;

/// What a directory gets when everything in it is done.
pub(super) struct End {
    /// Its metadata, unless it stays as it is.
    pub(super) meta: Option<Meta>,
    /// It was asked for, and not only made on the way: metadata that it cannot take is an error.
    pub(super) is_wanted: bool,
    /// What the snapshot does not have is removed.
    pub(super) delete: bool,
    /// Something is mounted on it that was not in the source.
    pub(super) is_beyond_mount: bool,
    /// What the snapshot has in it, if something must be removed. `None`: it must be looked up.
    pub(super) known: Option<WantedNames>,
}

impl End {
    /// It gets nothing.
    pub(super) fn nothing() -> End {
        End { meta: None, is_wanted: false, delete: false, is_beyond_mount: false, known: None }
    }

    /// Whether it gets anything.
    pub(super) fn is_something(&self) -> bool {
        self.meta.is_some() || self.delete
    }
}

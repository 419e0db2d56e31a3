//! The records of a snapshot in step with those of its base.

use crate::error::Result;
use crate::snapshot::compare_records::name;
use crate::snapshot::manifest::{Item, Items, compare_paths};
use std::cmp::Ordering;

/// The records of one path: of the base, of the new snapshot, or of both.
pub(super) struct Step {
    pub(super) old: Option<Item>,
    pub(super) new: Option<Item>,
}

/// A stream of records with the directory of the next one.
struct Records<'r> {
    items: Items<'r>,
    next: Option<Item>,
}

impl<'r> Records<'r> {
    fn new(mut items: Items<'r>) -> Result<Self> {
        let next = items.next().transpose()?;
        Ok(Records { items, next })
    }

    fn take(&mut self) -> Result<Option<Item>> {
        Ok(std::mem::replace(&mut self.next, self.items.next().transpose()?))
    }
}

/// The steps from a base to a snapshot, in the order of the snapshot's records.
pub(super) struct Steps<'r> {
    old: Option<Records<'r>>,
    new: Records<'r>,
    /// The directory of the step returned last.
    directory: Vec<u8>,
}

impl<'r> Steps<'r> {
    pub(super) fn new(old: Option<Items<'r>>, new: Items<'r>) -> Result<Self> {
        Ok(Steps { old: old.map(Records::new).transpose()?, new: Records::new(new)?, directory: Vec::new() })
    }

    /// The directory of the record of the new snapshot that was returned last, or its own path if it is one.
    pub(super) fn directory(&self) -> &[u8] {
        &self.directory
    }

    /// The next step.
    pub(super) fn next(&mut self) -> Result<Option<Step>> {
        let order = match (self.old.as_ref().map(|old| (&old.next, old.items.directory())), &self.new.next) {
            (None | Some((None, _)), None) => return Ok(None),
            (None | Some((None, _)), Some(_)) => Ordering::Greater,
            (Some((Some(_), _)), None) => Ordering::Less,
            (Some((Some(old), directory)), Some(new)) => {
                compare_paths(directory, self.new.items.directory()).then_with(|| name(old).cmp(name(new)))
            }
        };
        if order != Ordering::Less {
            self.directory.clear();
            self.directory.extend_from_slice(self.new.items.directory());
        }
        let old = match &mut self.old {
            Some(old) if order != Ordering::Greater => old.take()?,
            _ => None,
        };
        let new = if order == Ordering::Less { None } else { self.new.take()? };
        Ok(Some(Step { old, new }))
    }
}

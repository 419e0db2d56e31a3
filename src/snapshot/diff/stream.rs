//! The records of one snapshot in their order, limited to a path. Damage is a gap in the stream: nothing is known about
//! the entries in it.

use crate::error::{Error, Result};
use crate::snapshot::manifest::{Entry, Item, Items, Reader};
use crate::snapshot::part::Part;
use crate::util::path::is_below;

/// The records of a snapshot below a path.
pub(super) struct Stream<'r> {
    records: Records<'r>,
    within: Vec<u8>,
}

enum Records<'r> {
    Items(Items<'r>),
    One(Vec<u8>, Box<Entry>),
    End,
}

/// A record and the directory that it lies in; a directory lies in itself.
pub(super) type Located = (Vec<u8>, Item);

impl<'r> Stream<'r> {
    /// The records of this part. `None`: the snapshot does not have the path.
    pub(super) fn of(manifest: &'r Reader, part: Option<&Part>) -> Result<Self> {
        let records = match part {
            None => Records::End,
            Some(Part::Subtree(path)) if path.is_empty() => Records::Items(manifest.items()),
            Some(Part::Subtree(path)) => Records::Items(manifest.items_from(path)),
            Some(Part::Entry(directory, name)) => {
                let found = manifest.entry(directory, name)?;
                found.map_or(Records::End, |entry| Records::One(directory.clone(), Box::new(entry)))
            }
        };
        let within = match part {
            Some(Part::Subtree(path)) => path.clone(),
            _ => Vec::new(),
        };
        Ok(Stream { records, within })
    }

    /// The next record, and whether records before it were lost. Each loss is passed to `lost`.
    pub(super) fn next(&mut self, lost: &mut dyn FnMut(&Error)) -> (Option<Located>, bool) {
        let mut has_gap = false;
        match std::mem::replace(&mut self.records, Records::End) {
            Records::End => (None, false),
            Records::One(directory, entry) => (Some((directory, Item::Entry(*entry))), false),
            Records::Items(mut items) => loop {
                match items.next() {
                    None => return (None, has_gap),
                    Some(Err(error)) => {
                        lost(&error);
                        has_gap = true;
                    }
                    // Everything below a directory follows it without interruption.
                    Some(Ok(_)) if !is_below(items.directory(), &self.within) => return (None, has_gap),
                    Some(Ok(item)) => {
                        let located = (items.directory().to_vec(), item);
                        self.records = Records::Items(items);
                        return (Some(located), has_gap);
                    }
                }
            },
        }
    }
}

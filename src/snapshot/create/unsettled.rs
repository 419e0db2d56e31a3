//! Entries that the next run must look at even if they do not change: their records will be others then, or do not
//! prove that the entries are unchanged.

use crate::snapshot::manifest::{Item, Stored};
use crate::util::path::join;

/// The most bytes of paths that are kept. With more, the next run looks at everything.
const MOST: usize = 16 << 20;

/// The paths of these entries.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    paths: Vec<Vec<u8>>,
    bytes: usize,
}

impl Unsettled {
    /// Notes the record of an entry, or of a directory, if it is unsettled.
    pub(super) fn note(&mut self, directory: &[u8], item: &Item) {
        let meta = item.meta();
        let file = match item {
            Item::Entry(entry) => entry.file(),
            Item::Directory(_) => None,
        };
        // A file that was copied shares its data with this snapshot next time.
        let will_be_another = file.is_some_and(|file| file.changed || file.stored == Stored::Copied);
        if !(meta.recheck || meta.ino == 0 || will_be_another) {
            return;
        }
        let path = match item {
            Item::Entry(entry) => join(directory, &entry.name),
            Item::Directory(directory) => directory.path.clone(),
        };
        self.bytes = self.bytes.saturating_add(path.len() + size_of::<Vec<u8>>());
        if self.bytes <= MOST {
            self.paths.push(path);
        } else {
            self.paths = Vec::new();
        }
    }

    /// All the paths. `None` if they are too many.
    pub(super) fn into_paths(self) -> Option<Vec<Vec<u8>>> {
        (self.bytes <= MOST).then_some(self.paths)
    }
}

//! Which names the snapshot has in a directory, to know what must be deleted there.

use crate::error::Result;
use crate::snapshot::manifest::{Address, Reader};
use crate::util::path::join;

/// The names that the snapshot has in a directory, as they were streamed. Its entries and subdirectories need no lookup
/// by path; paths are as long as a tree is deep.
pub(super) struct WantedNames {
    /// The address of the directory's record.
    record: Address,
    /// The names of its subdirectories so far, in their order, each with a slash behind it.
    subdirectories: Vec<u8>,
}

impl WantedNames {
    /// Begins a directory after its record was read.
    pub(super) fn new(record: Address) -> WantedNames {
        WantedNames { record, subdirectories: Vec::new() }
    }

    /// Adds a subdirectory after its record was read.
    pub(super) fn add(&mut self, subdirectory: &[u8]) {
        self.subdirectories.extend_from_slice(subdirectory);
        self.subdirectories.push(b'/');
    }

    /// Returns those of `names` that the snapshot does not have. The names are sorted.
    pub(super) fn missing(&self, manifest: &Reader, names: Vec<Vec<u8>>) -> Result<Option<Vec<Vec<u8>>>> {
        let Some(mut entries) = manifest.names_at(self.record)? else { return Ok(None) };
        let mut subdirectories = self.subdirectories.split(|byte| *byte == b'/').peekable();
        let mut missing = Vec::new();
        for name in names {
            while subdirectories.peek().is_some_and(|subdirectory| *subdirectory < name.as_slice()) {
                subdirectories.next();
            }
            if subdirectories.peek() != Some(&name.as_slice()) && !entries.seek(&name)? {
                missing.push(name);
            }
        }
        Ok(Some(missing))
    }
}

/// Returns those of `names` that the snapshot does not have. Each is looked up, because records were lost to damage.
pub(super) fn missing(manifest: &Reader, directory: &[u8], names: Vec<Vec<u8>>) -> Result<Option<Vec<Vec<u8>>>> {
    let Some(mut known) = manifest.directory(directory)? else { return Ok(None) };
    let mut missing = Vec::new();
    for name in names {
        if known.seek(&name)?.is_none() && manifest.directory(&join(directory, &name))?.is_none() {
            missing.push(name);
        }
    }
    Ok(Some(missing))
}

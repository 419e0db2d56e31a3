//! The part of a snapshot at a path: a directory with everything below it, or one entry.

use super::manifest::Reader;
use crate::error::Result;
use crate::util::path::split;

/// A subtree or an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A directory and everything below it. The root's path is empty.
    Subtree(Vec<u8>),
    /// One entry: its directory and its name.
    Entry(Vec<u8>, Vec<u8>),
}

impl Part {
    /// The part of a snapshot at this path, if it has one.
    pub(super) fn find(manifest: &Reader, path: &[u8]) -> Result<Option<Part>> {
        if path.is_empty() || manifest.directory(path)?.is_some() {
            return Ok(Some(Part::Subtree(path.to_vec())));
        }
        let (directory, name) = split(path);
        Ok(manifest.entry(directory, name)?.map(|entry| Part::Entry(directory.to_vec(), entry.name)))
    }
}

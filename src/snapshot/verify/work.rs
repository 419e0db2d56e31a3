//! The files that a repair may replace: damaged files with a recorded hash.

use super::context::Snapshot;
use super::findings::Finding;
use crate::error::Result;
use crate::snapshot::manifest::{Entry, Meta};
use crate::tree::inode_map::Identity;
use crate::util::path::split;
use std::collections::{HashMap, HashSet};

/// A damaged file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Work {
    pub(super) hash: [u8; 32],
    pub(super) size: u64,
    pub(super) snapshot: usize,
    /// The path as in the manifest.
    pub(super) path: Vec<u8>,
    /// Whether the source had other names.
    pub(super) has_names: bool,
}

impl Work {
    /// Whether two files must have the same content.
    pub(super) fn has_same_content(&self, other: &Work) -> bool {
        (self.hash, self.size) == (other.hash, other.size)
    }
}

/// The files, sorted by content, and the directories with another modification time than their record.
pub(super) fn of(snapshots: &[Snapshot], findings: Vec<Finding>) -> (Vec<Work>, HashSet<(usize, Vec<u8>)>) {
    let numbers: HashMap<&str, usize> =
        snapshots.iter().enumerate().map(|(number, snapshot)| (snapshot.name.as_str(), number)).collect();
    let (mut works, mut directories) = (Vec::new(), HashSet::new());
    for Finding { snapshot, path, is_mtime } in findings {
        let Some(&number) = numbers.get(snapshot.as_str()) else { continue };
        let snapshot = &snapshots[number];
        if is_mtime {
            if directory(snapshot, &path).is_ok_and(|found| found.is_some()) {
                directories.insert((number, path));
            }
            continue;
        }
        // A damaged block of the manifest was reported.
        let Ok(Some(entry)) = entry(snapshot, &path) else { continue };
        let Some((hash, size)) = entry.file().and_then(|file| file.hash.map(|hash| (hash, file.size))) else {
            continue;
        };
        works.push(Work { hash, size, snapshot: number, path, has_names: entry.meta.nlink > 1 });
    }
    works.sort_unstable();
    works.dedup();
    (works, directories)
}

/// The record of an entry.
pub(super) fn entry(snapshot: &Snapshot, path: &[u8]) -> Result<Option<Entry>> {
    let (above, name) = split(path);
    match snapshot.manifest.entries_from(above, name)? {
        Some(mut entries) => entries.seek(name),
        None => Ok(None),
    }
}

/// The metadata in the record of a directory.
pub(super) fn directory(snapshot: &Snapshot, path: &[u8]) -> Result<Option<Meta>> {
    Ok(snapshot.manifest.directory(path)?.map(|found| found.directory().meta.clone()))
}

/// The inode that a record is of.
pub(super) fn inode(entry: &Entry) -> Option<Identity> {
    (entry.meta.nlink > 1 && entry.file().is_some()).then(|| entry.meta.inode())
}

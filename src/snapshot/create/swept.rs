//! What changed on an XFS since the last run, from two sweeps over its inodes and the last manifest.
//!
//! A sweep shows states of inodes, but not their names. The last manifest has those of all inodes that existed, and
//! whatever is new is in a directory that changed.

use super::previous::Previous;
use crate::error::Result;
use crate::snapshot::manifest::Item;
use crate::tree::sweep::State;
use crate::util::path::join;
use rustix::fs::FileType;
use std::collections::{HashMap, HashSet};

/// The changes on an XFS.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Inodes with a record, and in another state than that.
    pub(super) inodes: HashSet<u64>,
    /// The recorded paths of all that must be looked at.
    pub(super) paths: Vec<Vec<u8>>,
}

/// Compares the candidates of a sweep with their records. `dev` is the filesystem's device in the manifest. `None` if
/// more than `most` entries must be looked at.
///
/// # Errors
/// If the manifest is damaged.
pub(super) fn changes(
    previous: &Previous,
    dev: u64,
    candidates: &HashMap<u64, State>,
    most: usize,
) -> Result<Option<Changes>> {
    let mut changes = Changes::default();
    if candidates.is_empty() {
        return Ok(Some(changes));
    }
    let is_directory = |state: &State| FileType::from_raw_mode(state.mode) == FileType::Directory;
    let directories = candidates.iter().filter(|(_, state)| is_directory(state));
    // New directories, and changed ones.
    let mut directories: HashSet<u64> = directories.map(|(number, _)| *number).collect();
    let mut linked = Vec::new();
    let mut items = previous.reader.items();
    while let Some(item) = items.next() {
        let item = item?;
        let meta = item.meta();
        if meta.dev != dev {
            continue;
        }
        match candidates.get(&meta.ino) {
            Some(state) if is_as_recorded(state, &item) => _ = directories.remove(&meta.ino),
            Some(_) => {
                _ = changes.inodes.insert(meta.ino);
                changes.paths.push(match &item {
                    Item::Entry(entry) => join(items.directory(), &entry.name),
                    Item::Directory(directory) => directory.path.clone(),
                });
            }
            None => {}
        }
        if meta.nlink > 1 && matches!(item, Item::Entry(_)) {
            linked.push(items.address());
        }
        if changes.paths.len().max(linked.len()) > most {
            return Ok(None);
        }
    }
    // Renaming a directory changes no inode below it. But a file there with other names elsewhere must be looked at
    // under all its names, so that they stay names of one inode in the snapshot.
    if !directories.is_empty() {
        for address in linked {
            let found = previous.reader.entry_at(address)?;
            changes.paths.extend(found.map(|(directory, entry)| join(&directory, &entry.name)));
        }
    }
    Ok(Some(changes))
}

/// Whether an inode has the state that its record shows. The same decides in a walk of everything.
fn is_as_recorded(state: &State, item: &Item) -> bool {
    let meta = item.meta();
    let is_same = (state.mode, state.mtime, state.ctime) == (meta.mode, meta.mtime, meta.ctime);
    match item {
        Item::Directory(_) => is_same,
        Item::Entry(entry) => {
            is_same && state.nlink == meta.nlink && entry.file().is_none_or(|file| file.size == state.size)
        }
    }
}

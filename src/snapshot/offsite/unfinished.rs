//! A run that was killed sent packs that no index names. The next run finds them by a mark in the user's cache, and has
//! the library read their headers, so that nothing is sent twice.

use super::store::Store;
use crate::error::Result;
use rustic_core::RepairIndexOptions;
use rustic_core::repofile::{IndexFile, PackId};
use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

/// A run that has begun.
pub(super) struct Unfinished {
    mark: Option<PathBuf>,
}

impl Unfinished {
    /// Begins a run. If the last one on this machine was killed, finds what it sent.
    pub(super) fn begin(store: &Store) -> Result<Unfinished> {
        let mark = mark(store);
        if mark.as_ref().is_some_and(|mark| mark.exists()) {
            index_packs(store)?;
        }
        // Without the mark, data may be sent twice after a kill.
        let made = mark.filter(|mark| {
            mark.parent().is_some_and(|above| fs::create_dir_all(above).is_ok()) && fs::write(mark, "").is_ok()
        });
        Ok(Unfinished { mark: made })
    }

    /// The run is complete, or wrote an index of all that it sent.
    pub(super) fn end(self) {
        if let Some(mark) = self.mark {
            let _ = fs::remove_file(mark);
        }
    }
}

/// The mark of runs to this store.
fn mark(store: &Store) -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    let id = store.repository.config().id.to_hex().to_string();
    Some(base.join("pleach").join("offsite").join(id))
}

/// Adds packs to the index that it lacks. It is left alone if it names packs that are missing: that is damage.
fn index_packs(store: &Store) -> Result<()> {
    let action = "look for data of an interrupted run in";
    let fault = || store.fault(action);
    let mut packs: HashSet<PackId> = store.repository.list::<PackId>().map_err(fault())?.collect();
    for index in store.repository.stream_files::<IndexFile>().map_err(fault())? {
        let (_, index) = index.map_err(fault())?;
        for pack in index.packs.into_iter().chain(index.packs_to_delete) {
            if !packs.remove(&pack.id) {
                return Ok(());
            }
        }
    }
    if packs.is_empty() {
        return Ok(());
    }
    store.repository.repair_index(&RepairIndexOptions::default(), false).map_err(fault())
}

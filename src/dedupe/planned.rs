//! The plan of a dry run so far: files that would share the extents of other files by now. Later steps of the run see
//! the files in that planned state.

use super::catalogue::FileId;
use crate::extents::map::Map;
use crate::util::mutex::lock;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

/// A file that would have the extents of another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Twin {
    /// The file that has these extents.
    pub(super) source: FileId,
    /// Up to this offset.
    pub(super) end: u64,
}

/// The files that would have other extents. Shared by the threads of the run.
#[derive(Debug, Default)]
pub(super) struct Planned {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    twins: HashMap<FileId, Twin>,
    /// For each source, the offset up to which other files have its extents.
    sources: HashMap<FileId, u64>,
    /// The planned extents of files that have the extents of another file only at their beginning.
    maps: HashMap<FileId, Map>,
}

impl Planned {
    /// All of this file would have the extents of `source`.
    pub(super) fn share_all(&self, file: FileId, source: FileId) {
        self.state().share(file, Twin { source, end: u64::MAX });
    }

    /// This file would have the extents of `source` up to `end`, and `map` as all of its extents.
    pub(super) fn share_beginning(&self, file: FileId, twin: Twin, map: Map) {
        let mut state = self.state();
        state.share(file, twin);
        state.maps.insert(file, map);
    }

    /// The file with the extents that this file would have, and up to where.
    pub(super) fn twin(&self, file: FileId) -> Option<Twin> {
        self.state().twins.get(&file).copied()
    }

    /// The offset up to which other files would have the extents of this file.
    pub(super) fn shared_end(&self, file: FileId) -> u64 {
        self.state().sources.get(&file).copied().unwrap_or(0)
    }

    /// The extents that this file would have, if they differ from its present extents.
    pub(super) fn map(&self, file: FileId) -> Option<Map> {
        self.state().maps.get(&file).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn share(&mut self, file: FileId, twin: Twin) {
        self.twins.insert(file, twin);
        let end = self.sources.entry(twin.source).or_default();
        *end = twin.end.max(*end);
        self.maps.remove(&file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_plan_for_a_file_counts_and_a_source_is_shared_up_to_the_farthest_end() {
        let planned = Planned::default();
        let [a, b, c] = [0, 1, 2].map(FileId);
        planned.share_beginning(c, Twin { source: a, end: 10 }, Map::default());
        assert_eq!((planned.twin(c), planned.shared_end(a)), (Some(Twin { source: a, end: 10 }), 10));
        assert!(planned.map(c).is_some());
        planned.share_all(c, b);
        assert_eq!(planned.twin(c), Some(Twin { source: b, end: u64::MAX }));
        assert_eq!((planned.shared_end(a), planned.shared_end(b), planned.shared_end(c)), (10, u64::MAX, 0));
        assert!(planned.twin(a).is_none() && planned.map(c).is_none());
    }
}

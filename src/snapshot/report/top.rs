//! The paths with the most bytes, summed up over many comparisons, within a bounded memory.

use super::stats::PathChange;
use std::collections::HashMap;
use std::path::Path;

/// How many paths are kept between two cuts, at least. Each takes about 200 bytes, and the length of its path.
const KEPT: usize = 4096;

/// The paths with the most bytes.
#[derive(Debug, Default)]
pub(super) struct Top {
    paths: HashMap<Vec<u8>, PathChange>,
    /// Paths with fewer bytes were dropped: as many bytes as these cannot enter.
    floor: u64,
}

impl Top {
    /// Whether a path with at most this many bytes could become one of the largest.
    pub(super) fn has_room_for(&self, path: &[u8], bytes: u64) -> bool {
        bytes > self.floor || self.paths.contains_key(path)
    }

    /// Adds a change of a path.
    pub(super) fn add(&mut self, path: &[u8], change: PathChange) {
        if let Some(known) = self.paths.get_mut(path) {
            let PathChange { bytes, bound, added, changed, removed, .. } = change;
            known.bytes = known.bytes.saturating_add(bytes);
            known.bound = known.bound.and(bound);
            known.added += added;
            known.changed += changed;
            known.removed += removed;
            return;
        }
        if change.bytes <= self.floor {
            return;
        }
        self.paths.insert(path.to_vec(), change);
        if self.paths.len() >= 2 * KEPT {
            self.cut();
        }
    }

    /// The largest, in their order.
    pub(super) fn finish(self, most: usize) -> Vec<PathChange> {
        let mut changes: Vec<_> = self.paths.into_values().filter(|change| change.bytes > 0).collect();
        changes.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.path.cmp(&b.path)));
        changes.truncate(most);
        changes
    }

    fn cut(&mut self) {
        let mut bytes: Vec<u64> = self.paths.values().map(|change| change.bytes).collect();
        let (_, floor, _) = bytes.select_nth_unstable_by(KEPT, |a, b| b.cmp(a));
        self.floor = (*floor).max(self.floor);
        self.paths.retain(|_, change| change.bytes > self.floor);
    }
}

/// A change of this path, without a count.
pub(super) fn change(path: &Path, bytes: u64, last: &str) -> PathChange {
    let path = path.to_path_buf();
    PathChange { path, bytes, bound: Default::default(), added: 0, changed: 0, removed: 0, last: last.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(top: &mut Top, path: &str, bytes: u64) {
        top.add(path.as_bytes(), PathChange { changed: 1, ..change(Path::new(path), bytes, "monday") });
    }

    #[test]
    fn bytes_of_a_path_are_summed_up() {
        let mut top = Top::default();
        [("/a", 5), ("/b", 7), ("/a", 5), ("/c", 0)].into_iter().for_each(|(path, bytes)| add(&mut top, path, bytes));
        let found: Vec<_> =
            top.finish(9).into_iter().map(|change| (change.path, change.bytes, change.changed)).collect();
        assert_eq!(found, [("/a".into(), 10, 2), ("/b".into(), 7, 1)]);
    }

    #[test]
    fn many_paths_leave_the_largest_in_bounded_memory() {
        let mut top = Top::default();
        for number in 0..50_000_u64 {
            add(&mut top, &number.to_string(), number * 7919 % 50_000 + 1);
            assert!(top.paths.len() <= 2 * KEPT);
        }
        assert!(!top.has_room_for(b"new", 100) && top.has_room_for(b"new", 50_000));
        let largest: Vec<_> = top.finish(5).into_iter().map(|change| change.bytes).collect();
        assert_eq!(largest, [50_000, 49_999, 49_998, 49_997, 49_996]);
    }

    #[test]
    fn equal_sizes_do_not_fill_the_memory() {
        let mut top = Top::default();
        (0..50_000).for_each(|number| add(&mut top, &number.to_string(), 4096));
        assert!(top.paths.len() <= 2 * KEPT);
    }
}

//! The inodes of a device that have been seen, and by how many names. Pure, no I/O.
//!
//! They are stored as runs of consecutive numbers. Filesystems number the inodes of a tree almost without gaps, so a
//! million inodes take a few runs. At worst, with no two neighbours, an inode takes some 40 bytes.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// A set of inode numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inodes {
    /// Disjoint runs that do not touch, by their first number, each with the number behind its last.
    runs: BTreeMap<u64, u64>,
    /// For inodes added more than once, which are hard links: how often.
    often: HashMap<u64, u32>,
    count: u64,
}

impl Inodes {
    /// Adds a name of an inode. Returns whether the inode is new here.
    pub(crate) fn add(&mut self, inode: u64) -> bool {
        let before = self.runs.range_mut(..=inode).next_back();
        let behind = inode.saturating_add(1);
        let touching = match before {
            Some((_, end)) if *end > inode => {
                *self.often.entry(inode).or_insert(1) += 1;
                return false;
            }
            Some((_, end)) if *end == inode => Some(end),
            _ => None,
        };
        self.count += 1;
        // At most two look-ups, and usually one: inodes are added almost in order.
        match touching {
            Some(end) => {
                *end = behind;
                let start = self.runs.range(..=inode).next_back().map(|(start, _)| *start);
                if let (Some(next_end), Some(start)) = (self.runs.remove(&behind), start) {
                    self.runs.insert(start, next_end);
                }
            }
            None => {
                let end = self.runs.remove(&behind).unwrap_or(behind);
                self.runs.insert(inode, end);
            }
        }
        true
    }

    /// Adds a run of inodes that were not added before, with one name each.
    pub(super) fn add_run(&mut self, run: Range<u64>) {
        self.count += run.end.saturating_sub(run.start);
        self.runs.insert(run.start, run.end);
    }

    /// Whether the inode was added.
    pub(super) fn contains(&self, inode: u64) -> bool {
        self.runs.range(..=inode).next_back().is_some_and(|(_, end)| *end > inode)
    }

    /// The number of names of the inode that were added.
    pub(super) fn names(&self, inode: u64) -> u64 {
        match self.often.get(&inode) {
            Some(names) => u64::from(*names),
            None => u64::from(self.contains(inode)),
        }
    }

    /// The runs in their order, half-open.
    pub(super) fn runs(&self) -> impl Iterator<Item = Range<u64>> {
        self.runs.iter().map(|(start, end)| *start..*end)
    }

    /// The number of inodes.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn runs_hold_what_was_added_as_often_as_it_was(added in prop::collection::vec(0u64..60, 0..200)) {
            let (mut inodes, mut model) = (Inodes::default(), BTreeMap::<u64, u64>::new());
            for inode in added {
                prop_assert_eq!(inodes.add(inode), !model.contains_key(&inode));
                *model.entry(inode).or_default() += 1;
            }
            for inode in 0..60 {
                prop_assert_eq!(inodes.names(inode), model.get(&inode).copied().unwrap_or(0));
            }
            let listed: Vec<u64> = inodes.runs().flatten().collect();
            prop_assert_eq!(&listed, &model.keys().copied().collect::<Vec<_>>());
            prop_assert_eq!(inodes.count(), listed.len() as u64);
            let runs: Vec<_> = inodes.runs().collect();
            prop_assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start), "runs do not touch");
        }
    }
}

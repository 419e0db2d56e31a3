//! The regular files of a set by inode, and the paths that contain each, to count an extent for its owners. Pure, no
//! I/O.
//!
//! Files of a tree have consecutive numbers and are in the same paths, so a run takes 16 bytes for many files. At
//! worst, with no two neighbours, a file takes 48 bytes while the runs are joined.

use crate::util::mutex::{self, lock};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;

/// Files that count in the same way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::usage) struct Group {
    /// The numbers of the paths that contain them, in ascending order.
    pub(in crate::usage) paths: Vec<usize>,
    /// They go with the set: all their names are in it.
    pub(in crate::usage) leaves: bool,
}

/// The groups that were met, by many threads.
#[derive(Debug, Default)]
pub(super) struct Groups(Mutex<HashMap<Group, u32>>);

impl Groups {
    /// The number of a group.
    pub(super) fn number(&self, group: Group) -> u32 {
        let mut known = lock(&self.0);
        let next = known.len() as u32;
        *known.entry(group).or_insert(next)
    }
}

/// Consecutive inodes of one group.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u64,
    count: u32,
    group: u32,
}

const _: () = assert!(size_of::<Run>() == 16);

/// Runs of files, collected in ascending order of their inodes.
#[derive(Debug, Default)]
pub(super) struct Runs {
    list: Vec<Run>,
    count: u64,
    extents: u64,
}

impl Runs {
    /// Adds a file with this number of extents.
    pub(super) fn add(&mut self, inode: u64, group: u32, extents: u64) {
        self.count += 1;
        self.extents = self.extents.saturating_add(extents);
        match self.list.last_mut() {
            Some(last) if last.group == group && last.first + u64::from(last.count) == inode => last.count += 1,
            _ => self.list.push(Run { first: inode, count: 1, group }),
        }
    }
}

/// All files.
#[derive(Debug, Default)]
pub(in crate::usage) struct Files {
    runs: Vec<Run>,
    /// The number of files.
    pub(in crate::usage) count: u64,
    /// The number of their extents.
    pub(in crate::usage) extents: u64,
    /// The groups, by their numbers.
    pub(in crate::usage) groups: Vec<Group>,
}

impl Files {
    /// The files of parts in ascending order.
    pub(super) fn new(parts: Vec<Runs>, groups: Groups) -> Files {
        let mut runs = Vec::with_capacity(parts.iter().map(|part| part.list.len()).sum());
        let (mut count, mut extents) = (0, 0_u64);
        for part in parts {
            runs.extend(part.list);
            count += part.count;
            extents = extents.saturating_add(part.extents);
        }
        let mut numbered: Vec<_> = mutex::into_inner(groups.0).into_iter().collect();
        numbered.sort_unstable_by_key(|(_, number)| *number);
        Files { runs, count, extents, groups: numbered.into_iter().map(|(group, _)| group).collect() }
    }

    /// The number of the group of an inode, if it is one of the files.
    pub(in crate::usage) fn group_of(&self, inode: u64) -> Option<u32> {
        let behind = self.runs.partition_point(|run| run.first <= inode);
        let run = self.runs.get(behind.checked_sub(1)?)?;
        (inode - run.first < u64::from(run.count)).then_some(run.group)
    }

    /// The inodes, as runs.
    pub(in crate::usage) fn runs(&self) -> impl Iterator<Item = Range<u64>> {
        self.runs.iter().map(|run| run.first..run.first + u64::from(run.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_in_its_group_and_nothing_else_is() {
        let groups = Groups::default();
        let group = |paths: &[usize]| groups.number(Group { paths: paths.to_vec(), leaves: true });
        let (one, both) = (group(&[0]), group(&[0, 1]));
        assert_eq!(group(&[0]), one);
        let (mut first, mut second) = (Runs::default(), Runs::default());
        [(5, one), (6, one), (7, both)].into_iter().for_each(|(inode, group)| first.add(inode, group, 3));
        second.add(9, one, 4);
        assert_eq!(first.list.len(), 2);
        let files = Files::new(vec![first, second], groups);
        let found: Vec<_> = (4..11).map(|inode| files.group_of(inode)).collect();
        assert_eq!(found, [None, Some(one), Some(one), Some(both), None, Some(one), None]);
        assert_eq!((files.count, files.extents, files.groups[both as usize].paths.len()), (4, 13, 2));
        assert_eq!(files.runs().collect::<Vec<_>>(), [5..7, 7..8, 9..10]);
    }
}

//! Ranges of files with blocks that have no place of their own in the index, because the same blocks were found
//! elsewhere. When the file from which a range is borrowed is gone, the range must be looked at. Pure.

use std::collections::HashSet;
use std::ops::Range;

/// No file: whether the range must be looked at depends on whether its extents are still those of a known file.
pub(in crate::dedupe) const NOBODY: u32 = u32::MAX;

/// A borrowed range. Files are given by their numbers, offsets in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::dedupe) struct Borrowed {
    /// The file with the range.
    pub(in crate::dedupe) file: u32,
    /// The first block of the range.
    pub(in crate::dedupe) block: u32,
    /// The number of blocks.
    pub(in crate::dedupe) blocks: u32,
    /// The file in which the index has these blocks; [`NOBODY`] if that is decided by the extents.
    pub(in crate::dedupe) owner: u32,
}

impl Borrowed {
    /// The range in bytes.
    pub(in crate::dedupe) fn bytes(&self, block: u64) -> Range<u64> {
        let start = u64::from(self.block) * block;
        start..start + u64::from(self.blocks) * block
    }
}

/// A list of borrowed ranges that never grows beyond its memory.
#[derive(Debug, Default)]
pub(in crate::dedupe) struct List {
    ranges: Vec<Borrowed>,
    most: usize,
    /// Files with ranges that found no room.
    incomplete: HashSet<u32>,
}

impl List {
    /// A list of at most this many bytes.
    pub(in crate::dedupe) fn new(memory: u64) -> List {
        let most = memory / size_of::<Borrowed>() as u64;
        List { ranges: Vec::new(), most: usize::try_from(most).unwrap_or(usize::MAX), incomplete: HashSet::new() }
    }

    /// Adds a range, which may continue the last one. A range without room makes its file incomplete.
    pub(in crate::dedupe) fn add(&mut self, range: Borrowed) {
        let Borrowed { file, block, blocks, owner } = range;
        if let Some(last) = self.ranges.last_mut()
            && (last.file, last.owner, last.block.checked_add(last.blocks)) == (file, owner, Some(block))
            && let Some(both) = last.blocks.checked_add(blocks)
        {
            last.blocks = both;
        } else if self.ranges.len() < self.most {
            self.ranges.push(range);
        } else {
            self.incomplete.insert(file);
        }
    }

    /// Whether all borrowed ranges of a file are in the list.
    pub(in crate::dedupe) fn is_complete(&self, file: u32) -> bool {
        !self.incomplete.contains(&file)
    }

    /// The ranges.
    pub(in crate::dedupe) fn ranges(&self) -> &[Borrowed] {
        &self.ranges
    }

    /// Sorts the ranges by files and blocks.
    pub(in crate::dedupe) fn sort(&mut self) {
        self.ranges.sort_unstable();
    }

    /// The ranges of one file. The list must be sorted.
    pub(in crate::dedupe) fn of(&self, file: u32) -> &[Borrowed] {
        let from = self.ranges.partition_point(|range| range.file < file);
        let to = self.ranges.partition_point(|range| range.file <= file);
        &self.ranges[from..to]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(file: u32, block: u32, owner: u32) -> Borrowed {
        Borrowed { file, block, blocks: 2, owner }
    }

    #[test]
    fn ranges_that_follow_each_other_are_one() {
        let mut list = List::new(1024);
        [range(3, 4, 9), range(3, 6, 9), range(3, 8, NOBODY), range(1, 0, 9)].into_iter().for_each(|r| list.add(r));
        list.sort();
        assert_eq!(list.of(3), [Borrowed { blocks: 4, ..range(3, 4, 9) }, range(3, 8, NOBODY)]);
        assert_eq!((list.of(1).len(), list.of(2).len()), (1, 0));
        assert_eq!(range(3, 4, 9).bytes(4096), 4 * 4096..6 * 4096);
    }

    #[test]
    fn a_range_without_room_makes_its_file_incomplete() {
        let mut list = List::new(40);
        for block in [0, 10, 20] {
            list.add(range(block, block, NOBODY));
        }
        assert_eq!(list.ranges().len(), 2);
        assert!(list.is_complete(0) && list.is_complete(10) && !list.is_complete(20));
    }
}

//! Counts the bytes that are read. Data that is read again, and then mostly comes from memory, counts once. Pure.

use crate::extents::ranges::RangeSet;
use std::collections::HashMap;
use std::ops::Range;

/// The most ranges to remember. If there are more, data that is read again counts again.
const MOST: u64 = 1 << 16;

/// The ranges of files that were read.
#[derive(Default)]
pub(super) struct Tally {
    files: HashMap<u32, RangeSet>,
    ranges: u64,
}

impl Tally {
    /// Adds a range of a file. Returns the number of its bytes that were not read before.
    pub(super) fn add(&mut self, file: u32, range: Range<u64>) -> u64 {
        if self.ranges >= MOST {
            *self = Tally::default();
        }
        let read = self.files.entry(file).or_default();
        let before = read.count();
        let new = read.gaps(range.clone()).iter().map(|gap| gap.end - gap.start).sum();
        read.insert(range);
        self.ranges = (self.ranges + read.count()).saturating_sub(before);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_counts_once_in_each_file() {
        let mut tally = Tally::default();
        assert_eq!(tally.add(1, 10..20), 10);
        assert_eq!(tally.add(1, 15..30), 10);
        assert_eq!(tally.add(1, 0..40), 20);
        assert_eq!(tally.add(2, 0..40), 40);
        assert_eq!(tally.add(2, 5..5), 0);
    }

    #[test]
    fn there_is_a_most_to_remember() {
        let mut tally = Tally::default();
        for number in 0..4 * MOST {
            assert_eq!(tally.add(1, 2 * number..2 * number + 1), 1);
            assert!(tally.ranges <= MOST && tally.files[&1].count() == tally.ranges);
        }
    }
}

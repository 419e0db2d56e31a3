//! Sets of bytes, as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of bytes as ranges that neither touch nor overlap.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    ranges: BTreeMap<u64, u64>,
}

impl Intervals {
    /// How many bytes are in it.
    pub(crate) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    pub(crate) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&found, &its_end)) = self.ranges.range(..=end).next_back() {
            if its_end < start {
                break;
            }
            self.ranges.remove(&found);
            (start, end) = (start.min(found), end.max(its_end));
        }
        self.ranges.insert(start, end);
    }

    pub(crate) fn remove(&mut self, range: Range<u64>) {
        while let Some((&found, &its_end)) = self.ranges.range(..range.end).next_back() {
            if its_end <= range.start {
                break;
            }
            self.ranges.remove(&found);
            if its_end > range.end {
                self.ranges.insert(range.end, its_end);
            }
            if found < range.start {
                self.ranges.insert(found, range.start);
            }
        }
    }

    /// Whether any byte of the range is in it.
    pub(crate) fn touches(&self, range: &Range<u64>) -> bool {
        self.ranges.range(..range.end).next_back().is_some_and(|(_, end)| *end > range.start)
    }

    /// The parts of the range that are not in it.
    pub(crate) fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        let first = self.ranges.range(..=at).next_back().map_or(at, |(start, _)| *start);
        for (&start, &end) in self.ranges.range(first..range.end) {
            if start > at {
                gaps.push(at..start);
            }
            at = at.max(end);
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn intervals_are_a_set_of_bytes(steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 0..40)) {
            let mut intervals = Intervals::default();
            let mut bytes = [false; 100];
            for (insert, start, length) in steps {
                let range = start..start + length;
                bytes[start as usize..(start + length) as usize].fill(insert);
                if insert { intervals.insert(range) } else { intervals.remove(range) }
            }
            prop_assert_eq!(intervals.bytes(), bytes.iter().filter(|byte| **byte).count() as u64);
            let gaps: u64 = intervals.gaps(10..90).iter().map(|gap| gap.end - gap.start).sum();
            prop_assert_eq!(gaps, bytes[10..90].iter().filter(|byte| !**byte).count() as u64);
            for (number, byte) in bytes.iter().enumerate() {
                prop_assert_eq!(intervals.touches(&(number as u64..number as u64 + 1)), *byte);
            }
        }
    }
}

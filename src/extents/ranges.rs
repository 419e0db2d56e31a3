//! Sets of bytes as ranges that are disjoint, never touch, and are half-open. No I/O.
//!
//! A set that is built once and then read is a list sorted by start: 16 bytes a range, and any slice of [`Bytes`] will
//! do. A set that changes all the time is a [`RangeSet`]: each change takes a step in a tree, whatever the size.

use std::collections::BTreeMap;
use std::ops::Range;

/// A range of bytes.
pub(crate) type Bytes = Range<u64>;

/// Adds a range to a list; ranges that overlap or touch become one. In ascending order this only checks the last range.
pub(crate) fn push(list: &mut Vec<Bytes>, range: Bytes) {
    if range.is_empty() {
        return;
    }
    match list.last_mut() {
        Some(last) if last.start > range.start => insert(list, range),
        Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
        _ => list.push(range),
    }
}

/// Adds a range anywhere in a list.
fn insert(list: &mut Vec<Bytes>, range: Bytes) {
    let first = list.partition_point(|part| part.end < range.start);
    let behind = list.partition_point(|part| part.start <= range.end);
    let joined = list[first..behind].iter().fold(range, |all, part| all.start.min(part.start)..all.end.max(part.end));
    list.splice(first..behind, [joined]);
}

/// The list of these ranges, which may be in any order and may overlap.
pub(crate) fn list(mut ranges: Vec<Bytes>) -> Vec<Bytes> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut list = Vec::with_capacity(ranges.len());
    ranges.into_iter().for_each(|range| push(&mut list, range));
    list
}

/// The parts of a list within `range`.
pub(crate) fn within<'s>(list: &'s [Bytes], range: &Bytes) -> impl Iterator<Item = Bytes> + use<'s> {
    let Range { start, end } = *range;
    let first = list.partition_point(|part| part.end <= start);
    list[first..]
        .iter()
        .take_while(move |part| part.start < end)
        .map(move |part| part.start.max(start)..part.end.min(end))
}

/// The bytes of one list that are not in another.
pub(crate) fn subtract(list: &[Bytes], without: &[Bytes]) -> Vec<Bytes> {
    let mut rest = Vec::new();
    for range in list {
        let mut at = range.start;
        for gap in within(without, range) {
            push(&mut rest, at..gap.start);
            at = gap.end;
        }
        push(&mut rest, at..range.end);
    }
    rest
}

/// The number of bytes in a list.
pub(crate) fn length<'r>(list: impl IntoIterator<Item = &'r Bytes>) -> u64 {
    list.into_iter().map(|range| range.end - range.start).sum()
}

/// A set of ranges that changes in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    /// The end of each range, by its start.
    ends: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// The ranges in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Bytes> {
        self.ends.iter().map(|(start, end)| *start..*end)
    }

    /// The number of ranges.
    pub(crate) fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    /// The number of bytes in the set.
    pub(crate) fn length(&self) -> u64 {
        self.ends.iter().map(|(start, end)| end - start).sum()
    }

    /// Whether the set has no bytes.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds a range.
    pub(crate) fn insert(&mut self, range: Bytes) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&found, &its_end)) = self.ends.range(..=end).next_back() {
            if its_end < start {
                break;
            }
            self.ends.remove(&found);
            (start, end) = (start.min(found), end.max(its_end));
        }
        self.ends.insert(start, end);
    }

    /// Removes a range.
    pub(crate) fn remove(&mut self, range: Bytes) {
        if range.is_empty() {
            return;
        }
        while let Some((&found, &its_end)) = self.ends.range(..range.end).next_back() {
            if its_end <= range.start {
                break;
            }
            self.ends.remove(&found);
            if its_end > range.end {
                self.ends.insert(range.end, its_end);
            }
            if found < range.start {
                self.ends.insert(found, range.start);
            }
        }
    }

    /// Whether any byte of the range is in the set.
    pub(crate) fn touches(&self, range: &Bytes) -> bool {
        self.ends.range(..range.end).next_back().is_some_and(|(_, end)| *end > range.start)
    }

    /// The parts of the range that are not in the set.
    pub(crate) fn gaps(&self, range: Bytes) -> Vec<Bytes> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        let first = self.ends.range(..=at).next_back().map_or(at, |(start, _)| *start);
        for (&start, &end) in self.ends.range(first..range.end) {
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

    fn set_of(bits: &[bool]) -> Vec<Bytes> {
        let mut set = Vec::new();
        bits.iter().enumerate().filter(|(_, bit)| **bit).for_each(|(at, _)| push(&mut set, at as u64..at as u64 + 1));
        set
    }

    proptest! {
        #[test]
        fn sets_are_what_a_list_of_bytes_would_be(
            a in prop::collection::vec(any::<bool>(), 40),
            b in prop::collection::vec(any::<bool>(), 40),
            start in 0..40_u64,
            length_ in 1..40_u64,
        ) {
            let (set, other) = (set_of(&a), set_of(&b));
            let both: Vec<_> = a.iter().zip(&b).map(|(a, b)| *a && !b).collect();
            prop_assert_eq!(subtract(&set, &other), set_of(&both));
            let range = start..start + length_;
                        let mut any_order = other.clone();
            set.iter().rev().for_each(|part| push(&mut any_order, part.clone()));
            let either: Vec<_> = a.iter().zip(&b).map(|(a, b)| *a || *b).collect();
            prop_assert_eq!(&any_order, &set_of(&either));
            prop_assert_eq!(list(set.iter().rev().chain(&other).cloned().collect()), any_order);
            let inside: Vec<_> = a.iter().enumerate().map(|(at, a)| *a && range.contains(&(at as u64))).collect();
            prop_assert_eq!(within(&set, &range).collect::<Vec<_>>(), set_of(&inside));
            prop_assert_eq!(length(&set), a.iter().filter(|a| **a).count() as u64);
        }

        #[test]
        fn a_range_set_is_a_set_of_bytes(steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 0..40)) {
            let mut set = RangeSet::default();
            let mut bytes = [false; 100];
            for (insert, start, length) in steps {
                let range = start..start + length;
                bytes[start as usize..(start + length) as usize].fill(insert);
                if insert { set.insert(range) } else { set.remove(range) }
            }
            prop_assert_eq!(set.is_empty(), !bytes.contains(&true));
            prop_assert_eq!(set.length(), bytes.iter().filter(|byte| **byte).count() as u64);
            let gaps: u64 = set.gaps(10..90).iter().map(|gap| gap.end - gap.start).sum();
            prop_assert_eq!(gaps, bytes[10..90].iter().filter(|byte| !**byte).count() as u64);
            for (number, byte) in bytes.iter().enumerate() {
                prop_assert_eq!(set.touches(&(number as u64..number as u64 + 1)), *byte);
            }
        }
    }
}

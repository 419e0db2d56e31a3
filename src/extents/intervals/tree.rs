//! The intervals that overlap a range. The sorted list is searched as a binary tree with its root in the middle: 8 more
//! bytes for each interval, and a step for each level and each interval found, however long some intervals are.

use super::interval::{File, Interval, Overlap, Place};
use super::list::Intervals;
use crate::extents::address_space::Address;
use crate::extents::ranges::Bytes;
use std::ops::ControlFlow;

/// Sorted intervals that can be searched.
#[derive(Debug)]
pub(crate) struct IntervalTree<F: File> {
    list: Intervals<Place<F>>,
    /// For the middle of each half, quarter, … of the list: the farthest end in that part.
    ends: Vec<u64>,
}

impl<F: File> IntervalTree<F> {
    /// The bytes that an interval takes.
    pub(crate) const BYTES_AN_INTERVAL: usize = size_of::<Interval<Place<F>>>() + size_of::<u64>();

    /// Sorts the list.
    pub(crate) fn of(mut list: Intervals<Place<F>>) -> Self {
        list.vec().shrink_to_fit();
        list.sort();
        let mut ends = vec![0; list.len()];
        farthest(list.as_slice(), &mut ends);
        IntervalTree { list, ends }
    }

    /// All intervals, sorted.
    pub(crate) fn as_slice(&self) -> &[Interval<Place<F>>] {
        self.list.as_slice()
    }

    /// The parts of intervals in `length` bytes from an address, sorted.
    pub(crate) fn overlaps(&self, at: Address, length: u64) -> Vec<Overlap<F>> {
        let mut found = Vec::new();
        if let Some(range) = self.list.bytes(at, length) {
            let _ = self.each(&range, &mut |interval| {
                found.extend(interval.overlap(&range));
                ControlFlow::Continue(())
            });
        }
        found
    }

    /// Whether any interval in `length` bytes from an address has a holder that satisfies `is_such`. Stops at the first
    /// one.
    pub(crate) fn any(&self, at: Address, length: u64, mut is_such: impl FnMut(&Place<F>) -> bool) -> bool {
        let Some(range) = self.list.bytes(at, length) else { return false };
        let mut each = |interval: &Interval<Place<F>>| match interval.overlap(&range).is_some() && is_such(&interval.by)
        {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        self.each(&range, &mut each).is_break()
    }

    fn each(&self, range: &Bytes, each: &mut Each<'_, F>) -> ControlFlow<()> {
        overlapping(self.list.as_slice(), &self.ends, range, each)
    }
}

type Each<'a, F> = dyn FnMut(&Interval<Place<F>>) -> ControlFlow<()> + 'a;

/// Fills in the farthest ends, and returns the farthest end of all.
fn farthest<F: File>(list: &[Interval<Place<F>>], ends: &mut [u64]) -> u64 {
    let middle = list.len() / 2;
    let Some(interval) = list.get(middle) else { return 0 };
    let (left, right) = ends.split_at_mut(middle);
    let end = farthest(&list[..middle], left).max(farthest(&list[middle + 1..], &mut right[1..]));
    ends[middle] = end.max(interval.end());
    ends[middle]
}

fn overlapping<F: File>(
    list: &[Interval<Place<F>>],
    ends: &[u64],
    range: &Bytes,
    each: &mut Each<'_, F>,
) -> ControlFlow<()> {
    let middle = list.len() / 2;
    let Some(interval) = list.get(middle).filter(|_| ends[middle] > range.start) else {
        return ControlFlow::Continue(());
    };
    overlapping(&list[..middle], &ends[..middle], range, each)?;
    if interval.start() < range.end {
        if interval.end() > range.start {
            each(interval)?;
        }
        overlapping(&list[middle + 1..], &ends[middle + 1..], range, each)?;
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::address_space::SpaceId;
    use proptest::prelude::*;

    fn tree(places: &[(u64, u64)]) -> IntervalTree<u32> {
        let mut list = Intervals::new(SpaceId::assumed());
        for (file, (start, length)) in (0..).zip(places) {
            list.add(SpaceId::assumed().at(*start), *length, Place { file, logical: 0 });
        }
        IntervalTree::of(list)
    }

    proptest! {
        #[test]
        fn all_that_overlap_are_found(
            places in prop::collection::vec((0..200_u64, 1..60_u64), 0..60), from in 0..220_u64, length in 1..50_u64
        ) {
            let tree = tree(&places);
            let at = SpaceId::assumed().at(from);
            let mut found: Vec<_> = tree.overlaps(at, length).iter().map(|overlap| overlap.by.file).collect();
            found.sort_unstable();
            let is_near = |(at, size): &(u64, u64)| *at < from + length && at + size > from;
            let naive: Vec<_> = (0..).zip(&places).filter(|(_, place)| is_near(place)).map(|(n, _)| n).collect();
            prop_assert_eq!(tree.any(at, length, |place| place.file > 5), naive.iter().any(|n| *n > 5));
            prop_assert_eq!(found, naive);
            prop_assert_eq!(tree.overlaps(SpaceId::separate().at(from), length), []);
        }
    }

    #[test]
    fn what_was_found_is_looked_up_by_address_whatever_its_length() {
        let tree = tree(&[(0, 1000), (10, 5), (500, 5), (600, 5)]);
        let found = |range: Bytes| {
            let found = tree.overlaps(SpaceId::assumed().at(range.start), range.end - range.start);
            found.iter().map(|overlap| overlap.by.file).collect::<Vec<_>>()
        };
        assert_eq!(found(500..505), [0, 2]);
        assert_eq!(found(12..13), [0, 1]);
        assert_eq!(found(1000..2000), [0; 0]);
    }
}

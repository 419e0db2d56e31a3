//! A list in which equal intervals are one, so that a million files on the same extents take no more memory than one.
//!
//! The intervals added since the last sort are at most half as many as were sorted then, and the list never grows
//! beyond that: an interval takes at most one and a half times its size.

use super::interval::{Holder, Interval};
use super::list::Intervals;
use crate::extents::address_space::{Address, SpaceId};

/// A holder that can represent several.
pub(crate) trait Merge: Holder<Length = u32> {
    /// Adds the holder of an equal interval.
    fn merge(&mut self, other: &Self);
}

/// Longer ranges are cut into parts of this length: lengths are stored in 32 bits.
const LONGEST: u32 = 1 << 31;

/// Shorter lists are not sorted.
const FEW: usize = 16 << 10;

/// Intervals of one address space. Intervals with the same order are merged.
#[derive(Clone, Debug)]
pub(crate) struct Merged<H: Merge> {
    list: Intervals<H>,
    /// The number of intervals at the front that are sorted and distinct.
    sorted: usize,
}

impl<H: Merge> Merged<H> {
    /// No intervals yet.
    pub(crate) fn new(space: SpaceId) -> Self {
        Merged { list: Intervals::new(space), sorted: 0 }
    }

    /// Adds an interval. An address in another space is ignored.
    pub(crate) fn add(&mut self, at: Address, length: u32, by: H) {
        let list = self.list.vec();
        if list.len() == list.capacity() {
            self.make_room();
        }
        self.list.add(at, length, by);
    }

    /// Adds a range of any length, as far as the address space goes.
    pub(crate) fn add_range(&mut self, at: Address, length: u64, by: H) {
        let Some(start) = self.list.space().offset(at) else { return };
        let length = length.min(u64::MAX - start);
        let mut done = 0;
        while done < length {
            let part = u32::try_from(length - done).unwrap_or(LONGEST).min(LONGEST);
            self.add(at.plus(done), part, by);
            done += u64::from(part);
        }
    }

    /// The intervals in their order, equal ones merged.
    pub(crate) fn sorted(&mut self) -> &[Interval<H>] {
        self.sort();
        self.list.as_slice()
    }

    fn make_room(&mut self) {
        self.sort();
        let limit = (self.sorted + self.sorted / 2).max(FEW);
        let list = self.list.vec();
        list.reserve_exact(limit - list.len());
    }

    fn sort(&mut self) {
        if self.sorted == self.list.len() {
            return;
        }
        self.list.sort();
        self.list.vec().dedup_by(|later, kept| {
            let is_same = later.order() == kept.order();
            if is_same {
                kept.by.merge(&later.by);
            }
            is_same
        });
        self.sorted = self.list.len();
    }

    /// The bytes allocated for the list.
    #[cfg(test)]
    pub(crate) fn memory(&mut self) -> usize {
        self.list.vec().capacity() * size_of::<Interval<H>>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::interval::covered_bytes;
    use super::*;

    #[derive(Clone, Copy, Debug)]
    struct Count(u32);

    impl Holder for Count {
        type Length = u32;
        type Order = (u64, u32);

        fn order(&self, start: u64, length: u32) -> (u64, u32) {
            (start, length)
        }
    }

    impl Merge for Count {
        fn merge(&mut self, other: &Self) {
            self.0 += other.0;
        }
    }

    #[test]
    fn a_range_too_long_for_32_bits_is_cut() {
        let space = SpaceId::assumed();
        let mut list = Merged::new(space);
        let length = 3 * u64::from(LONGEST) + 7;
        list.add_range(space.at(5), length, Count(1));
        assert_eq!(list.sorted().len(), 4);
        assert_eq!(covered_bytes(list.sorted()), length);
    }

    #[test]
    fn equal_intervals_are_merged_and_other_spaces_ignored() {
        let space = SpaceId::assumed();
        let mut list = Merged::new(space);
        for start in [7, 5, 7] {
            list.add(space.at(start), 10, Count(1));
        }
        list.add(SpaceId::separate().at(5), 10, Count(100));
        let counts: Vec<_> = list.sorted().iter().map(|interval| (interval.start(), interval.by.0)).collect();
        assert_eq!(counts, [(5, 1), (7, 2)]);
    }
}

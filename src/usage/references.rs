//! References of files to ranges of a device: packed, equal references counted together, and the sums of their ranges.
//! Pure, no I/O.
//!
//! A million files on the same extents take no more room than one. The references added since the last sort are at most
//! half as many as were sorted then, and the list never grows beyond that: `BYTES_A_RANGE` bounds its memory.

use std::ops::Range;

/// References to the same range of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reference {
    /// The start of the extent that contains the range (on Btrfs), or of the range itself.
    pub(super) extent: u64,
    /// The offset of the range in the extent.
    pub(super) offset: u32,
    /// Its length.
    pub(super) length: u32,
    /// The number of references.
    pub(super) count: u32,
    /// The number of references that disappear when the set is deleted; the others belong to files with names outside
    /// it.
    pub(super) leaving: u32,
}

const _: () = assert!(size_of::<Reference>() == 24);

impl Reference {
    /// The range on the device.
    pub(super) fn range(&self) -> Range<u64> {
        let start = self.extent + u64::from(self.offset);
        start..start + u64::from(self.length)
    }

    fn place(&self) -> (u64, u32, u32) {
        (self.extent, self.offset, self.length)
    }
}

/// Longer ranges are cut into parts of this length: lengths are stored in 32 bits.
const LONGEST: u64 = 1 << 31;

/// Shorter lists are not sorted.
const FEW: usize = 16 << 10;

/// The most memory that a distinct range takes, beyond the first [`FEW`]: one reference, and room for half another.
const BYTES_A_RANGE: usize = size_of::<Reference>() * 3 / 2;
const _: () = assert!(BYTES_A_RANGE * 2 <= 200, "for a path and for the set: what is promised");

/// A list of references. Equal references are counted together.
#[derive(Clone, Debug, Default)]
pub(super) struct References {
    list: Vec<Reference>,
    /// The number of references at the front that are sorted and distinct.
    sorted: usize,
}

impl References {
    /// Adds references to a part of an extent.
    pub(super) fn add(&mut self, reference: Reference) {
        if self.list.len() == self.list.capacity() {
            self.make_room();
        }
        self.list.push(reference);
    }

    /// Adds references to a range, which is an extent of its own.
    pub(super) fn add_range(&mut self, range: Range<u64>, count: u32, leaving: u32) {
        let mut start = range.start;
        while start < range.end {
            let length = (range.end - start).min(LONGEST);
            self.add(Reference { extent: start, offset: 0, length: length as u32, count, leaving });
            start += length;
        }
    }

    /// The references in the order of their places, equal places merged.
    pub(super) fn sorted(&mut self) -> &[Reference] {
        self.sort();
        &self.list
    }

    fn make_room(&mut self) {
        self.sort();
        let limit = (self.sorted + self.sorted / 2).max(FEW);
        self.list.reserve_exact(limit - self.list.len());
    }

    fn sort(&mut self) {
        if self.sorted == self.list.len() {
            return;
        }
        self.list.sort_unstable();
        self.list.dedup_by(|later, kept| {
            let same = later.place() == kept.place();
            if same {
                kept.count = kept.count.saturating_add(later.count);
                kept.leaving = kept.leaving.saturating_add(later.leaving);
            }
            same
        });
        self.sorted = self.list.len();
    }

    #[cfg(test)]
    fn memory(&self) -> usize {
        self.list.capacity() * size_of::<Reference>()
    }
}

/// The bytes that sorted references cover, each counted once.
pub(super) fn union(sorted: &[Reference]) -> u64 {
    let (mut sum, mut covered) = (0, 0);
    for range in sorted.iter().map(Reference::range) {
        sum += range.end.saturating_sub(range.start.max(covered));
        covered = covered.max(range.end);
    }
    sum
}

/// The bytes of all references, counted as often as they are referred to.
pub(super) fn sum(references: &[Reference]) -> u64 {
    references.iter().map(|reference| u64::from(reference.length) * u64::from(reference.count)).sum()
}

/// Cuts sorted references at all their bounds. Passes each piece to `each`, with the number of references that cover it
/// and the number of those that disappear with the set.
pub(super) fn cover(sorted: &[Reference], mut each: impl FnMut(Range<u64>, u64, u64)) {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;
    // The references that cover the present place, by their ends.
    let mut open: BinaryHeap<Reverse<(u64, u32, u32)>> = BinaryHeap::new();
    let (mut at, mut count, mut leaving) = (0, 0u64, 0u64);
    let mut close =
        |open: &mut BinaryHeap<Reverse<(u64, u32, u32)>>, at: &mut u64, count: &mut u64, leaving: &mut u64, to: u64| {
            while let Some(Reverse((end, ..))) = open.peek().copied() {
                let stop = end.min(to);
                if stop > *at {
                    each(*at..stop, *count, *leaving);
                    *at = stop;
                }
                if end > to {
                    break;
                }
                if let Some(Reverse((_, counted, left))) = open.pop() {
                    *count -= u64::from(counted);
                    *leaving -= u64::from(left);
                }
            }
            *at = to;
        };
    for reference in sorted {
        let range = reference.range();
        close(&mut open, &mut at, &mut count, &mut leaving, range.start);
        open.push(Reverse((range.end, reference.count, reference.leaving)));
        count += u64::from(reference.count);
        leaving += u64::from(reference.leaving);
    }
    close(&mut open, &mut at, &mut count, &mut leaving, u64::MAX);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn references(parts: &[(u64, u64, u32, bool)]) -> References {
        let mut references = References::default();
        for (start, length, count, leaves) in parts {
            references.add_range(*start..start + length, *count, if *leaves { *count } else { 0 });
        }
        references
    }

    proptest! {
        #[test]
        fn sums_are_those_of_a_count_of_each_byte(
            parts in prop::collection::vec((0u64..100, 1u64..30, 1u32..4, any::<bool>()), 0..60),
        ) {
            let mut model = [(0u64, 0u64); 200];
            for (start, length, count, leaves) in &parts {
                for byte in *start..start + length {
                    model[byte as usize].0 += u64::from(*count);
                    model[byte as usize].1 += if *leaves { u64::from(*count) } else { 0 };
                }
            }
            let mut references = references(&parts);
            let sorted = references.sorted();
            prop_assert_eq!(union(sorted), model.iter().filter(|(count, _)| *count > 0).count() as u64);
            prop_assert_eq!(sum(sorted), model.iter().map(|(count, _)| count).sum::<u64>());
            let mut covered = [(0, 0); 200];
            cover(sorted, |range, count, leaving| {
                for byte in range {
                    assert_eq!(covered[byte as usize], (0, 0), "each byte is in one piece");
                    covered[byte as usize] = (count, leaving);
                }
            });
            prop_assert_eq!(covered, model);
        }
    }

    #[test]
    fn a_million_different_ranges_stay_within_the_stated_memory() {
        let mut references = References::default();
        let mut most = 0;
        for number in 0..1_000_000u64 {
            // Not in order, and each a second time, like a clone.
            let place = number.wrapping_mul(7_919) % 1_000_000 * 4096;
            references.add_range(place..place + 4096, 1, 1);
            references.add_range(place..place + 4096, 1, 1);
            most = most.max(references.memory());
        }
        assert_eq!(references.sorted().len(), 1_000_000);
        assert!(references.sorted().iter().all(|reference| reference.count == 2));
        assert!(most <= 1_000_000 * BYTES_A_RANGE, "{most} bytes");
    }

    #[test]
    fn a_range_too_long_for_32_bits_is_cut() {
        let mut references = References::default();
        references.add_range(5..5 + 3 * LONGEST + 7, 1, 0);
        assert_eq!(references.sorted().len(), 4);
        assert_eq!(union(references.sorted()), 3 * LONGEST + 7);
    }
}

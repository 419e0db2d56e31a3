//! References of files to ranges of a device, counted in packed intervals, and the sums of their ranges. Pure, no I/O.

use crate::extents::intervals::{Bounds, Holder, Interval, Merge, Merged, Sweep};
use crate::extents::ranges::Bytes;

/// The references to a range of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Referrers {
    /// The offset of the range in the extent that contains it (on Btrfs); otherwise 0.
    pub(super) offset: u32,
    /// The number of references.
    pub(super) count: u32,
    /// The number of references that disappear when the set is deleted; the others belong to files with names outside
    /// it.
    pub(super) leaving: u32,
}

impl Holder for Referrers {
    type Length = u32;
    /// The start of the extent, the offset there, and the length, in one number: it is compared in two instructions.
    type Order = u128;

    fn order(&self, start: u64, length: u32) -> u128 {
        let extent = start.wrapping_sub(self.offset.into());
        u128::from(extent) << 64 | u128::from(self.offset) << 32 | u128::from(length)
    }
}

impl Merge for Referrers {
    fn merge(&mut self, other: &Referrers) {
        self.count = self.count.saturating_add(other.count);
        self.leaving = self.leaving.saturating_add(other.leaving);
    }
}

/// References to one range.
pub(super) type Reference = Interval<Referrers>;

const _: () = assert!(size_of::<Reference>() == 24);

/// A list of references. Equal references are counted together.
pub(super) type References = Merged<Referrers>;

/// The most memory that a distinct range takes, beyond a list of a few: one reference, and room for half another.
const BYTES_A_RANGE: usize = size_of::<Reference>() * 3 / 2;
const _: () = assert!(BYTES_A_RANGE * 2 <= 200, "for a path and for the set: what is promised");

/// The start of the extent that contains a reference.
pub(super) fn extent_of(reference: &Reference) -> u64 {
    reference.start().wrapping_sub(reference.by.offset.into())
}

/// The bytes of all references, counted as often as they are referred to.
pub(super) fn sum(references: &[Reference]) -> u64 {
    references.iter().map(|reference| reference.length() * u64::from(reference.by.count)).sum()
}

/// Cuts sorted references at all their bounds. Passes each piece to `each`, with the number of references that cover it
/// and the number of those that disappear with the set.
pub(super) fn cover(sorted: &[Reference], each: impl FnMut(Bytes, u64, u64)) {
    let mut cover = Cover { count: 0, leaving: 0, each };
    let mut sweep = Sweep::new(&mut cover);
    sorted.iter().for_each(|reference| sweep.begin(reference));
    sweep.finish();
}

/// The references that cover the present place.
struct Cover<F> {
    count: u64,
    leaving: u64,
    each: F,
}

impl<F: FnMut(Bytes, u64, u64)> Bounds for Cover<F> {
    type Holder = Referrers;
    /// Its references, and those that disappear.
    type Open = (u32, u32);

    fn begins(&mut self, reference: &Reference) -> (u32, u32) {
        let Referrers { count, leaving, .. } = reference.by;
        self.count += u64::from(count);
        self.leaving += u64::from(leaving);
        (count, leaving)
    }

    fn covers(&mut self, range: Bytes) {
        (self.each)(range, self.count, self.leaving);
    }

    fn ends(&mut self, (count, leaving): (u32, u32), _at: u64) {
        self.count -= u64::from(count);
        self.leaving -= u64::from(leaving);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::address_space::SpaceId;
    use crate::extents::intervals::covered_bytes;
    use proptest::prelude::*;

    fn references(parts: &[(u64, u64, u32, bool)]) -> References {
        let mut references = References::new(SpaceId::assumed());
        for (start, length, count, leaves) in parts {
            let by = Referrers { offset: 0, count: *count, leaving: if *leaves { *count } else { 0 } };
            references.add_range(SpaceId::assumed().at(*start), *length, by);
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
            prop_assert_eq!(covered_bytes(sorted), model.iter().filter(|(count, _)| *count > 0).count() as u64);
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
    fn references_are_ordered_by_extent_then_by_place_then_by_length() {
        let by = |offset| Referrers { offset, ..Referrers::default() };
        let order = |start, offset, length| by(offset).order(start, length);
        let rising = [(0, 0, 7), (0, 0, 8), (1, 1, 1), (5, 0, 1), (5, 0, 9), (6, 1, 2), (1 << 40, 0, 1)];
        assert!(rising.map(|(start, offset, length)| order(start, offset, length)).is_sorted_by(|a, b| a < b));
        assert_eq!(order(0x1_0002, 2, 3), 0x1_0000 << 64 | 2 << 32 | 3);
        assert_eq!(extent_of(&Reference::new(0x1_0002, 3, by(2))), 0x1_0000);
    }

    #[test]
    fn a_million_different_ranges_stay_within_the_stated_memory() {
        let space = SpaceId::assumed();
        let mut references = References::new(space);
        let mut most = 0;
        for number in 0..1_000_000u64 {
            // Not in order, and each a second time, like a clone.
            let place = number.wrapping_mul(7_919) % 1_000_000 * 4096;
            references.add_range(space.at(place), 4096, Referrers { offset: 0, count: 1, leaving: 1 });
            references.add_range(space.at(place), 4096, Referrers { offset: 0, count: 1, leaving: 1 });
            most = most.max(references.memory());
        }
        assert_eq!(references.sorted().len(), 1_000_000);
        assert!(references.sorted().iter().all(|reference| reference.by.count == 2));
        assert!(most <= 1_000_000 * BYTES_A_RANGE, "{most} bytes");
    }
}

//! The part of the content that one run of `verify` reads. Content hashes lie on a ring, and a part is an arc of it. So
//! the choice does not depend on which snapshots exist, and equal content is always chosen together. Pure, no I/O.

use crate::util::digest::prefix;

/// An arc of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    start: u64,
    width: u128,
}

/// The length of the ring.
const RING: u128 = 1 << 64;
/// Rounding up: these additional positions are nothing next to the ring, and more than a rounding error.
const MARGIN: u128 = 1 << 20;

impl Part {
    /// This percentage of the ring, from a position on.
    pub(super) fn new(start: u64, percent: f64) -> Part {
        let width = (percent / 100.0 * RING as f64) as u128;
        Part { start, width: (width + MARGIN).min(RING) }
    }

    /// Whether this content belongs to the part.
    pub(super) fn contains(&self, hash: &[u8; 32]) -> bool {
        u128::from(prefix(hash).wrapping_sub(self.start)) < self.width
    }

    /// The position behind the part.
    pub(super) fn end(&self) -> u64 {
        self.start.wrapping_add(self.width as u64)
    }

    /// The fraction of all content that it has, about.
    pub(super) fn fraction(&self) -> f64 {
        self.width as f64 / RING as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn so_many_runs_read_everything_wherever_they_begin(
            start in any::<u64>(), positions in prop::collection::vec(any::<u64>(), 20), percent in 0.1_f64..=100.0,
        ) {
            let mut hashes: Vec<[u8; 32]> = Vec::new();
            for position in positions.into_iter().chain([start, start.wrapping_sub(1), 0, u64::MAX]) {
                let mut hash = [0; 32];
                hash[..8].copy_from_slice(&position.to_le_bytes());
                hashes.push(hash);
            }
            let mut at = start;
            for _ in 0..(100.0 / percent).ceil() as usize {
                let part = Part::new(at, percent);
                hashes.retain(|hash| !part.contains(hash));
                at = part.end();
            }
            prop_assert_eq!(hashes.len(), 0);
        }

        #[test]
        fn a_part_is_not_read_twice_before_the_rest(start in any::<u64>(), percent in 0.1_f64..40.0) {
            let first = Part::new(start, percent);
            let second = Part::new(first.end(), percent);
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&start.to_le_bytes());
            prop_assert!(first.contains(&hash) && !second.contains(&hash));
            hash[..8].copy_from_slice(&first.end().to_le_bytes());
            prop_assert!(!first.contains(&hash) && second.contains(&hash));
        }
    }
}

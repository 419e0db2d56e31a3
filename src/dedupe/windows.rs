//! Divides the work on a group: which members are submitted together, which ranges of each, and in which windows.
//!
//! The real run and the dry run follow the same plan. Nothing is submitted here.

use super::facts::Member;
use crate::extents::map::Map;
use crate::fs::fidedupe::WINDOW;
use crate::sys::reflink::MAX_DEDUPE_DESTINATIONS;
use std::collections::HashMap;
use std::ops::Range;

/// The most file data that one call makes the kernel hold in memory, for one thread.
const BUDGET: u64 = 512 << 20;

/// Gaps up to this length between ranges are submitted too: shared data needs a comparison but no reading.
const GAP: u64 = 64 << 10;

/// The number of destinations of this size that one call takes.
pub(super) fn at_once(size: u64) -> usize {
    (BUDGET / size.clamp(1, WINDOW)).clamp(1, MAX_DEDUPE_DESTINATIONS as u64) as usize
}

/// The members in rounds. A round never has two members with the same layout: the freed bytes are right only if the
/// last holder of an extent is submitted alone.
pub(super) fn rounds(members: Vec<&mut Member>) -> Vec<Vec<&mut Member>> {
    let mut rounds: Vec<Vec<&mut Member>> = Vec::new();
    let mut seen: HashMap<u64, usize> = HashMap::new();
    for member in members {
        let round = seen.entry(member.facts.layout).or_default();
        if rounds.len() <= *round {
            rounds.push(Vec::new());
        }
        rounds[*round].push(member);
        *round += 1;
    }
    rounds
}

/// The ranges to submit so that a file with this map gets the layout of the source: block-aligned, small gaps closed.
pub(super) fn ranges(source: &Map, map: &Map, size: u64, block: u64) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for range in source.unlike(map, size) {
        let start = range.start / block * block;
        let end = range.end.div_ceil(block).saturating_mul(block).min(size);
        match ranges.last_mut() {
            Some(last) if start <= last.end.saturating_add(GAP) => last.end = end,
            _ => ranges.push(start..end),
        }
    }
    ranges
}

/// The ranges cut into windows.
pub(super) fn windows(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let cut = |range: &Range<u64>| {
        let (start, end) = (range.start, range.end);
        (start..end).step_by(WINDOW as usize).map(move |at| at..end.min(at + WINDOW))
    };
    ranges.iter().flat_map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_the_ranges() {
        let w = WINDOW;
        assert_eq!(windows(&[0..5, w..3 * w + 1]), [0..5, w..2 * w, 2 * w..3 * w, 3 * w..3 * w + 1]);
    }
}

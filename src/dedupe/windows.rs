//! Divides the work on a group: which members are submitted together, which ranges of each, and in which windows.
//!
//! The real run and the dry run follow the same plan. Nothing is submitted here.

use super::facts::Member;
use crate::extents::map::Map;
use crate::extents::ranges::within;
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

/// The parts of the ranges that are shared if two files are equal up to `until`, in whole blocks: the last block of a
/// file is shared as a whole even if the file ends within it.
pub(super) fn shared(ranges: &[Range<u64>], until: u64, block: u64) -> Vec<Range<u64>> {
    within(ranges, &(0..until)).map(|part| part.start..part.end.next_multiple_of(block)).collect()
}

/// The ranges cut into windows.
pub(super) fn cut(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let pieces = |range: &Range<u64>| {
        let (start, end) = (range.start, range.end);
        (start..end).step_by(WINDOW as usize).map(move |at| at..end.min(at + WINDOW))
    };
    ranges.iter().flat_map(pieces).collect()
}

/// Whether the progress in a file of this size is reported window by window, for each destination. That of others is
/// reported when their group is done.
pub(super) fn are_reported(size: u64) -> bool {
    size > WINDOW
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::FileId;
    use super::super::facts::Facts;
    use super::*;
    use crate::extents::address_space::SpaceId;
    use crate::extents::piece::Piece;
    use std::num::NonZeroU64;

    fn map(length: u64, address: u64) -> Map {
        Map::from_pieces(vec![Piece::plain(0, length, SpaceId::assumed().at(address))])
    }

    #[test]
    fn a_call_takes_as_many_files_as_fit_into_memory_and_at_least_one() {
        assert_eq!([0, 1, 1 << 20].map(at_once), [MAX_DEDUPE_DESTINATIONS; 3]);
        assert_eq!([8 << 20, WINDOW, u64::MAX].map(at_once), [64, 32, 32]);
    }

    #[test]
    fn files_that_lie_in_the_same_place_are_in_different_rounds() {
        let member = |(number, layout): (u32, u64)| {
            let facts = Facts { layout, ..Facts::default() };
            Member { file: FileId(number), identity: NonZeroU64::MIN, facts, out: false }
        };
        let mut members: Vec<_> = (0..).zip([1, 2, 1, 1, 3, 2]).map(member).collect();
        let rounds = rounds(members.iter_mut().collect());
        let files: Vec<Vec<_>> =
            rounds.iter().map(|round| round.iter().map(|member| member.file.0).collect()).collect();
        assert_eq!(files, [vec![0, 1, 4], vec![2, 5], vec![3]]);
    }

    #[test]
    fn ranges_are_whole_blocks_within_the_file_and_small_gaps_are_closed() {
        const BLOCK: u64 = 4096;
        let size = (1 << 20) + 100;
        let source = map(2 << 20, 0);
        let unlike = |places: &[(u64, u64)]| {
            let places: Vec<_> = places.iter().map(|(start, end)| *start..*end).collect();
            let other = source.with_ranges_of(&map(2 << 20, 1 << 30), &places);
            ranges(&source, &other, size, BLOCK).iter().map(|range| (range.start, range.end)).collect::<Vec<_>>()
        };
        assert!(unlike(&[]).is_empty());
        assert_eq!(unlike(&[(5000, 6000)]), [(BLOCK, 2 * BLOCK)]);
        assert_eq!(GAP, 16 * BLOCK);
        let near = 2 * BLOCK + GAP;
        assert_eq!(unlike(&[(5000, 6000), (near, near + 1)]), [(BLOCK, near + BLOCK)]);
        let far = near + BLOCK;
        assert_eq!(unlike(&[(5000, 6000), (far, far + 1)]), [(BLOCK, 2 * BLOCK), (far, far + BLOCK)]);
        assert_eq!(unlike(&[(1 << 20, 2 << 20)]), [(1 << 20, size)], "the file ends there");
    }

    #[test]
    fn whole_blocks_are_shared_up_to_the_first_difference() {
        let ranges = [0..8192, 16384..20000];
        let shared = |until| {
            let parts = shared(&ranges, until, 4096);
            parts.iter().map(|part| (part.start, part.end)).collect::<Vec<_>>()
        };
        assert_eq!(shared(20000), [(0, 8192), (16384, 20480)]);
        assert_eq!(shared(16384), [(0, 8192)]);
        assert_eq!(shared(4096), [(0, 4096)]);
        assert!(shared(0).is_empty());
    }

    #[test]
    fn only_files_of_several_windows_are_reported_by_windows() {
        assert_eq!([0, WINDOW, WINDOW + 1].map(are_reported), [false, false, true]);
    }

    #[test]
    fn windows_cover_the_ranges() {
        let w = WINDOW;
        assert_eq!(cut(&[0..5, w..3 * w + 1]), [0..5, w..2 * w, 2 * w..3 * w, 3 * w..3 * w + 1]);
    }
}

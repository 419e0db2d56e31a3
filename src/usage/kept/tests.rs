//! Tests of maps without a filesystem: the file, and the merge against a naive model.

use super::file::{self, Header, Reader};
use super::merge::{Piece, merge};
use super::task::Made;
use super::types::{Identity, Range, References};
use crate::extents::address_space::SpaceId;
use crate::extents::intervals::Merged;
use crate::usage::inodes::Inodes;
use proptest::prelude::*;
use std::io;

fn header(runs: usize, ranges: usize) -> Header {
    let identity = Identity::Xfs { root: 128, changed: (7, 8), digest: [9; 32], own: 4096 };
    Header { name: "monday".to_string(), identity, runs: runs as u64, ranges: ranges as u64 }
}

fn written(runs: &[std::ops::Range<u64>], ranges: &[Range]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = header(runs.len(), ranges.len());
    file::write(&mut bytes, &header, runs.iter().cloned(), ranges.iter().copied()).unwrap();
    bytes
}

fn runs() -> Vec<std::ops::Range<u64>> {
    vec![128..192, 200..201]
}

/// Runs and ranges of a map.
type Content = (Vec<std::ops::Range<u64>>, Vec<Range>);

fn read(bytes: &[u8]) -> io::Result<Content> {
    let mut reader = Reader::open(bytes)?;
    let (mut runs, mut ranges) = (Vec::new(), Vec::new());
    while let Some(run) = reader.next_run()? {
        runs.push(run);
    }
    while let Some(range) = reader.next_range()? {
        ranges.push(range);
    }
    Ok((runs, ranges))
}

/// Ranges that fill several blocks.
fn many(number: u64) -> Vec<Range> {
    let range = |n: u64| Range { start: n * 8191, length: 4096, count: 1 + n as u32 % 3, inode: n * 7919 % 100_003 };
    (0..number).map(range).collect()
}

#[test]
fn a_map_is_read_as_it_was_written() {
    let (runs, ranges) = (vec![128..192, 200..201, 1 << 40..(1 << 40) + 5], many(30_000));
    assert_eq!(read(&written(&runs, &ranges)).unwrap(), (runs, ranges));
    assert_eq!(read(&written(&[], &[])).unwrap(), (vec![], vec![]));
}

#[test]
fn a_truncated_or_extended_map_is_refused() {
    let bytes = written(&runs(), &many(30_000));
    for length in (0..bytes.len()).step_by(997).chain([bytes.len() - 1, bytes.len() - 40]) {
        assert!(read(&bytes[..length]).is_err(), "{length} of {}", bytes.len());
    }
    assert!(read(&[&bytes[..], &[0]].concat()).is_err());
}

#[test]
fn a_map_with_a_flipped_bit_is_refused() {
    let bytes = written(&runs(), &many(3000));
    let mut damaged = bytes.clone();
    for at in 0..bytes.len() {
        damaged[at] ^= 1 << (at % 8);
        assert!(read(&damaged).is_err(), "byte {at} of {}", bytes.len());
        damaged[at] = bytes[at];
    }
}

#[test]
fn a_block_of_another_map_is_refused() {
    let (one, other) = (written(&[], &many(20_000)), written(&runs(), &many(20_000)));
    // Both have the same ranges in their second block, but not the same block before it.
    let mixed = [&one[..one.len() / 2], &other[other.len() - one.len().div_ceil(2)..]].concat();
    assert!(read(&mixed).is_err());
}

#[test]
fn lengths_in_a_file_reserve_no_memory() {
    let mut bytes = written(&[], &many(10));
    let header = 20 + u32::from_le_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]) as usize;
    for (at, length) in [(16, u32::MAX), (header, u32::MAX), (header + 4, u32::MAX), (header + 4, 1 << 30)] {
        let before = bytes.clone();
        bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
        assert!(read(&bytes).is_err());
        bytes = before;
    }
    // Numbers of records that are not there.
    let mut many_ranges = Vec::new();
    file::write(&mut many_ranges, &self::header(0, usize::MAX), [].into_iter(), many(10).into_iter()).unwrap();
    assert!(read(&many_ranges).is_err());
}

#[test]
fn ranges_beyond_the_address_space_are_refused() {
    for range in [
        Range { start: u64::MAX, length: 1, count: 1, inode: 1 },
        Range { start: 5, length: 0, count: 1, inode: 1 },
        Range { start: 5, length: 1, count: 0, inode: 1 },
    ] {
        assert!(read(&written(&[], &[range])).is_err(), "{range:?}");
    }
    let run = std::ops::Range { start: 5, end: 5 };
    assert!(read(&written(&[run], &[])).is_err());
}

#[test]
fn a_million_ranges_stay_within_the_stated_memory() {
    let space = SpaceId::assumed();
    let mut ranges = Merged::new(space);
    let mut most = 0;
    for number in 0..1_000_000_u64 {
        let place = number.wrapping_mul(7_919) % 1_000_000 * 4096;
        for _ in 0..2 {
            ranges.add_range(space.at(place), 4096, References { count: 1, inode: number });
        }
        most = most.max(ranges.memory());
    }
    assert!(most <= 1_000_000 * super::types::BYTES_A_RANGE, "{most} bytes");
    let identity = header(0, 0).identity;
    let mut bytes = Vec::new();
    Made { identity, inodes: Inodes::default(), ranges }.write("monday", &mut bytes).unwrap();
    // A reader holds one block, whatever the number of ranges.
    let mut reader = Reader::open(&bytes[..]).unwrap();
    let mut read = 0;
    while let Some(range) = reader.next_range().unwrap() {
        assert_eq!((range.start, range.count), (read * 4096, 2));
        assert!(reader.memory() <= 200 << 10, "{} bytes", reader.memory());
        read += 1;
    }
    assert_eq!(read, 1_000_000);
}

proptest! {
    #[test]
    fn pieces_are_those_of_a_count_of_each_byte(
        maps in prop::collection::vec(prop::collection::vec((0u64..100, 1u32..30, 1u32..4), 0..12), 1..5),
        set in prop::collection::vec(any::<bool>(), 5),
    ) {
        let set = &set[..maps.len()];
        let mut readers = Vec::new();
        let files: Vec<Vec<u8>> = maps.iter().zip(0..).map(|(ranges, map)| {
            let mut ranges = ranges.clone();
            ranges.sort_unstable();
            ranges.dedup_by_key(|range| (range.0, range.1));
            let range = |(start, length, count): (u64, u32, u32)| Range { start, length, count, inode: map };
            written(&[], &ranges.into_iter().map(range).collect::<Vec<_>>())
        }).collect();
        let mut model = vec![[0_u64; 200]; maps.len()];
        for (file, counts) in files.iter().zip(&mut model) {
            for Range { start, length, count, .. } in read(file).unwrap().1 {
                (start..start + u64::from(length)).for_each(|byte| counts[byte as usize] += u64::from(count));
            }
            readers.push(Reader::open(&file[..]).unwrap());
        }
        let mut pieces: Vec<Piece> = Vec::new();
        merge(&mut readers, set, |piece| pieces.push(piece)).unwrap();
        prop_assert!(pieces.windows(2).all(|pair| pair[0].end <= pair[1].start), "{pieces:?}");
        for byte in 0..200_u64 {
            let holders: Vec<usize> = (0..maps.len()).filter(|map| model[*map][byte as usize] > 0).collect();
            let is_in_set = !holders.is_empty() && holders.iter().all(|map| set[*map]);
            let found = pieces.iter().find(|piece| (piece.start..piece.end).contains(&byte));
            prop_assert_eq!(found.is_some(), is_in_set || holders.len() == 1, "byte {}", byte);
            if let Some(piece) = found {
                prop_assert_eq!(piece.is_in_set, is_in_set);
                prop_assert_eq!(piece.is_alone, holders.len() == 1);
                prop_assert!(holders.contains(&(piece.map as usize)) && piece.inode == u64::from(piece.map));
                let count: u64 = model.iter().map(|counts| counts[byte as usize]).sum();
                prop_assert_eq!(piece.count, count);
            }
        }
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let start = written(&[], &many(3));
        for kept in [0, 8, 16, 20, start.len().min(70)] {
            let _ = read(&[&start[..kept], &bytes[..]].concat());
        }
    }
}

/// A frozen map; `docs/format.md` describes it.
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples/usage-map-1");

#[test]
fn the_sample_of_a_map_reads_as_it_was_written() {
    let bytes = std::fs::read(SAMPLE).unwrap();
    assert_eq!(*Reader::open(&bytes[..]).unwrap().header(), header(2, 12_000));
    assert_eq!(read(&bytes).unwrap(), (runs(), many(12_000)));
}

#[test]
#[ignore = "writes the sample of a new version, once"]
fn write_a_sample_of_a_map() {
    let mut file = std::fs::File::create_new(SAMPLE).unwrap();
    io::Write::write_all(&mut file, &written(&runs(), &many(12_000))).unwrap();
}

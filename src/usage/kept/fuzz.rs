//! A fuzz target for maps of snapshots.

use super::file::{Reader, write};
use super::types::{Range, Run};
use crate::util::fuzz::{self, Source};

/// A map as it is, and a map of a header and blocks in strings, with the right digests.
pub(crate) fn usage_map(bytes: &[u8]) {
    read(bytes);
    let mut source = Source::new(bytes);
    let (header, mut blocks) = (source.bytes(), Vec::new());
    while !source.is_empty() {
        blocks.push(source.bytes());
    }
    read(&seal(header, &blocks));
}

/// A map with this header and these blocks.
fn seal(header: &[u8], blocks: &[&[u8]]) -> Vec<u8> {
    let version = 1_u32;
    let mut out = b"pleachUM".to_vec();
    out.extend([version, !version, header.len() as u32].map(u32::to_le_bytes).as_flattened());
    out.extend(header);
    let mut before = *blake3::hash(&out).as_bytes();
    for block in blocks.iter().copied().chain([&[][..]]) {
        let packed = if block.is_empty() { Vec::new() } else { fuzz::packed(block) };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&before).update(&(block.len() as u64).to_le_bytes()).update(&packed);
        before = *hasher.finalize().as_bytes();
        out.extend([packed.len() as u32, block.len() as u32].map(u32::to_le_bytes).as_flattened());
        out.extend(before);
        out.extend(packed);
    }
    out
}

/// Reads a map to its end. If it is sound, the same content is written, and read again.
fn read(bytes: &[u8]) {
    let Ok(mut reader) = Reader::open(bytes) else { return };
    let header = reader.header().clone();
    // A record takes at least two bytes, which zstd can pack very well.
    let (Some(runs), Some(ranges)) = (runs(&mut reader), ranges(&mut reader)) else { return };
    assert_eq!((header.runs, header.ranges), (runs.len() as u64, ranges.len() as u64));
    assert!(runs.windows(2).all(|two| two[0].end <= two[1].start));
    assert!(ranges.windows(2).all(|two| two[0].start <= two[1].start));
    assert!(ranges.iter().all(|range| range.start.checked_add(range.length.into()).is_some()));
    let mut written = Vec::new();
    write(&mut written, &header, runs.iter().cloned(), ranges.iter().copied()).expect("memory");
    let mut reader = Reader::open(&*written).expect("a map that was written");
    assert_eq!(*reader.header(), header);
    assert_eq!((self::runs(&mut reader), self::ranges(&mut reader)), (Some(runs), Some(ranges)));
}

fn runs(reader: &mut Reader<&[u8]>) -> Option<Vec<Run>> {
    let mut runs = Vec::new();
    while let Some(run) = reader.next_run().ok()? {
        runs.push(run);
    }
    Some(runs)
}

fn ranges(reader: &mut Reader<&[u8]>) -> Option<Vec<Range>> {
    let mut ranges = Vec::new();
    while let Some(range) = reader.next_range().ok()? {
        ranges.push(range);
    }
    Some(ranges)
}

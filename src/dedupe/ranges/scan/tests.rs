//! The scanner on files in memory, compared with an exhaustive search of every block.

use super::*;
use crate::util::digest::prefix;
use proptest::prelude::*;

struct Memory {
    files: Vec<Vec<u8>>,
    form: Form,
}

impl Data for Memory {
    fn size(&mut self, file: u32) -> Option<u64> {
        self.files.get(file as usize).map(|bytes| bytes.len() as u64)
    }

    fn read(&mut self, file: u32, at: u64, buffer: &mut [u8]) -> Option<usize> {
        let bytes = self.files.get(file as usize)?.get(at as usize..)?;
        let Form::Sums { .. } = self.form else {
            let length = bytes.len().min(buffer.len());
            buffer[..length].copy_from_slice(&bytes[..length]);
            return Some(length);
        };
        let blocks = bytes.chunks_exact(BLOCK as usize).zip(buffer.as_chunks_mut().0);
        Some(blocks.map(|(block, place)| *place = sum(block)).count() * size_of::<Sum>())
    }

    fn read_end(&mut self, file: u32, at: u64, buffer: &mut [u8]) -> Option<usize> {
        let bytes = &self.files.get(file as usize)?[at as usize..];
        assert!(bytes.len() < BLOCK as usize);
        let end = if let Form::Bytes { .. } = self.form { bytes } else { &sum(bytes) };
        buffer.copy_from_slice(end);
        Some(end.len())
    }
}

/// The checksum of a block, filled up with zeros.
fn sum(block: &[u8]) -> Sum {
    let mut whole = [0; BLOCK as usize];
    whole[..block.len()].copy_from_slice(block);
    prefix(blake3::hash(&whole).as_bytes()).to_le_bytes()
}

const BLOCK: u64 = 16;
const BYTES: Form = Form::Bytes { block: BLOCK };

/// Checksums, looked up one by one or in pairs.
fn sums(pairs: bool) -> Form {
    Form::Sums { block: BLOCK, zero: sum(&[]), pairs }
}

fn scan(form: Form, files: &[Vec<u8>], min_run: u64, steps: u64) -> Vec<(u32, Run)> {
    let blocks = files.iter().map(|bytes| bytes.len() as u64 / BLOCK + 1).sum();
    scan_with(form, Index::new(1 << 20, blocks), files, min_run, steps)
}

fn scan_with(form: Form, index: Index, files: &[Vec<u8>], min_run: u64, steps: u64) -> Vec<(u32, Run)> {
    let mut data = Memory { files: files.to_vec(), form };
    let mut scanner = Scanner::new(index, form, min_run);
    let mut runs = Vec::new();
    for (file, bytes) in (0..).zip(files) {
        let size = bytes.len() as u64;
        scanner.begin(file, size);
        let mut at = 0;
        while at < size {
            let end = (at + steps * BLOCK).min(size);
            runs.extend(scanner.enter(at..end).map(|run| (file, run)));
            while let Some(run) = scanner.next_run(&mut data) {
                runs.push((file, run));
            }
            at = end;
        }
        runs.extend(scanner.finish().map(|run| (file, run)));
    }
    runs
}

#[test]
fn a_file_that_became_longer_is_scanned_to_its_old_end() {
    for form in [BYTES, sums(false), sums(true)] {
        let grown = [vec![1; 40], vec![0; 60]].concat();
        let mut data = Memory { files: vec![grown.clone(), grown], form };
        let mut scanner = Scanner::new(Index::new(1 << 20, 100), form, BLOCK);
        for (file, size) in [(0, 40), (1, 41), (1, 7), (0, 75)] {
            scanner.begin(file, size);
            assert_eq!(scanner.enter(0..size), None);
            let runs = std::iter::from_fn(|| scanner.next_run(&mut data)).take(100).count();
            assert!(runs < 100, "{form:?}: {size} bytes");
            scanner.finish();
        }
    }
}

/// The numbers of the complete blocks.
fn whole<'n>(numbers: &'n [u8], bytes: &[u8]) -> &'n [u8] {
    &numbers[..bytes.len() / BLOCK as usize]
}

/// A file of numbered blocks, plus a partial block if there is a tail.
fn file(blocks: &[u8], tail: usize) -> Vec<u8> {
    let block = |number: &u8| {
        if *number == 0 { [0; 16] } else { *blake3::hash(&[*number]).as_bytes().first_chunk().unwrap() }
    };
    let mut bytes: Vec<u8> = blocks.iter().flat_map(block).collect();
    bytes.truncate(bytes.len().saturating_sub(if tail == 0 { 0 } else { 16 - tail }));
    bytes
}

#[test]
fn a_match_is_extended_both_ways_to_the_ends_of_both_files() {
    let unique = |from: u8, length: u8| (from..from + length).collect::<Vec<_>>();
    let shared = unique(100, 40);
    let one = [unique(1, 7), shared.clone()].concat();
    let two = [unique(50, 3), shared].concat();
    let source = Source::File { file: 0, offset: 7 * BLOCK };
    let found = [(1, Run { source, start: 3 * BLOCK, length: 39 * BLOCK + 5 })];
    for form in [BYTES, sums(false), sums(true)] {
        let files = [file(&one, 5), file(&two, 5)];
        assert_eq!(scan(form, &files, 4 * BLOCK, 1000), found);
        // The same with an index that keeps one block in five: the match is found in the middle, and extended
        // backwards too.
        let index = Index::new(1024, 240);
        assert_eq!(index.modulus(), 5);
        assert_eq!(scan_with(form, index, &files, 4 * BLOCK, 1000), found);
    }
}

#[test]
fn long_matches_are_handed_on_in_parts_and_repetitive_ones_share_with_their_beginning() {
    let period = 3 * BLOCK;
    let length = 2 * PART + 100 * BLOCK;
    let bytes: Vec<u8> = file(&[1, 2, 3], 0).into_iter().cycle().take(length as usize).collect();
    for form in [BYTES, sums(false), sums(true)] {
        let runs = scan_with(form, Index::new(1024, 40), std::slice::from_ref(&bytes), 8 * BLOCK, 1 << 20);
        let mut at = period;
        for (_, run) in &runs {
            assert_eq!((run.start, run.source), (at, Source::File { file: 0, offset: 0 }));
            at += run.length;
        }
        assert!(runs.len() >= 2 && at == length, "{runs:?}");
    }
}

#[test]
fn repeated_data_finds_its_own_period_even_if_it_was_seen_elsewhere() {
    let run = Run { source: Source::File { file: 1, offset: 0 }, start: BLOCK, length: 999 * BLOCK };
    for form in [BYTES, sums(false), sums(true)] {
        let runs = scan(form, &[file(&[1, 2, 3, 4], 0), file(&[4; 1000], 0)], 8 * BLOCK, 1000);
        assert_eq!(runs, [(1, run)]);
    }
}

#[test]
fn zeros_are_given_as_zeros_and_never_indexed() {
    for form in [BYTES, sums(false), sums(true)] {
        let runs = scan(form, &[file(&[&[1][..], &[0; 100], &[2]].concat(), 0)], 8 * BLOCK, 1000);
        assert_eq!(runs, [(0, Run { source: Source::Zeros, start: BLOCK, length: 100 * BLOCK })]);
        // A partial block at the end belongs to no run of zeros.
        let runs = scan(form, &[[file(&[&[1][..], &[0; 100]].concat(), 0), vec![0; 5]].concat()], 8 * BLOCK, 1000);
        assert_eq!(runs, [(0, Run { source: Source::Zeros, start: BLOCK, length: 100 * BLOCK })]);
    }
}

#[test]
fn a_partial_block_is_not_taken_for_a_whole_one_with_zeros_at_its_end() {
    let blocks: Vec<u8> = (1..20).collect();
    let short = [file(&blocks, 0), vec![7; 5]].concat();
    let long = [file(&[90], 0), file(&blocks, 0), vec![7; 5], vec![0; 11], file(&[91], 0)].concat();
    let run = Run { source: Source::File { file: 0, offset: 0 }, start: BLOCK, length: 19 * BLOCK };
    for form in [BYTES, sums(false), sums(true)] {
        assert_eq!(scan(form, &[short.clone(), long.clone()], 4 * BLOCK, 1000), [(1, run)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn runs_are_true_and_none_is_missed(
        pieces in prop::collection::vec((0..3_usize, 0..60_usize, 1..30_usize), 1..14),
        tails in prop::collection::vec(0..16_usize, 3),
        min_blocks in 1..8_u64, steps in 1..60_u64, form in prop::sample::select(vec![BYTES, sums(false), sums(true)]),
    ) {
        // Pairs need two blocks.
        let form = if min_blocks == 1 && matches!(form, Form::Sums { .. }) { sums(false) } else { form };
        // Three files of slices of one sequence of distinct blocks, so that each match has one shift at a time.
        let mut numbers = vec![Vec::new(); 3];
        for (fresh, (file, from, length)) in (120..).zip(pieces) {
            numbers[file].push(fresh);
            numbers[file].extend((from..from + length).map(|number| number as u8 + 1));
        }
        let files: Vec<_> = numbers.iter().zip(&tails).map(|(numbers, tail)| file(numbers, *tail)).collect();
        let runs = scan(form, &files, min_blocks * BLOCK, steps);
        let mut covered: Vec<Vec<bool>> = numbers.iter().map(|numbers| vec![false; numbers.len()]).collect();
        let mut last = (0, 0);
        for (file, run) in &runs {
            let Source::File { file: from, offset } = run.source else { panic!("there are no zeros") };
            let bytes = |file: u32, at: u64| &files[file as usize][at as usize..(at + run.length) as usize];
            prop_assert_eq!(bytes(*file, run.start), bytes(from, offset));
            prop_assert!((from, offset) < (*file, run.start));
            prop_assert!(run.length >= min_blocks * BLOCK);
            prop_assert!((*file, run.start) >= last, "in order, and none overlaps");
            last = (*file, run.start + run.length);
            for block in run.start / BLOCK..(run.start + run.length).div_ceil(BLOCK) {
                covered[*file as usize][block as usize] = true;
            }
        }
        // A stretch of blocks that were all in earlier files and occurred there once must be found.
        for file in 1..3 {
            let earlier: Vec<&[u8]> = (0..file).map(|file| whole(&numbers[file], &files[file])).collect();
            let own = whole(&numbers[file], &files[file]);
            for (start, window) in own.windows(min_blocks as usize).enumerate() {
                let times = |list: &[u8]| list.windows(window.len()).filter(|other| *other == window).count();
                let single = |number: &u8| {
                    earlier.iter().chain([&own]).map(|list| list.iter().filter(|n| *n == number).count()).sum::<usize>()
                        == 2
                };
                let known = earlier.iter().map(|list| times(list)).sum::<usize>() == 1;
                if known && window.iter().all(single) {
                    let found = &covered[file][start..start + window.len()];
                    prop_assert!(found.iter().all(|&found| found), "missed {:?} of {}", window, file);
                }
            }
        }
    }
}

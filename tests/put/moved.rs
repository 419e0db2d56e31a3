//! Data that the base has at another aligned offset is found and shared.

use super::*;
use crate::on_filesystems;

/// Puts `new` over a file of `old`; all but this many blocks must be shared.
#[track_caller]
fn moved(fs: &Filesystem, name: &str, args: &[&str], old: &[u8], new: &[u8], written: usize) {
    let dest = fs.join(name);
    write_synced(&dest, old);
    // A clone holds all extents, so that on Btrfs none is rewritten to free it.
    let kept = fs.join("kept");
    clone(&dest, &kept);
    let before = places(&dest);
    let summary = put_well(&dest, args, new);
    assert_shared(&dest, &summary, &before, new.len().div_ceil(BLOCK) - written);
    [dest, kept].iter().for_each(|file| fs::remove_file(file).expect("a file can be removed"));
}

/// The bytes with others inserted.
fn inserted(bytes: &[u8], at: usize, others: &[u8]) -> Vec<u8> {
    [&bytes[..at], others, &bytes[at..]].concat()
}

on_filesystems! {
    [xfs, btrfs] fn an_inserted_block_costs_that_block(fs: &Filesystem) {
        let old = bytes(1, 12 * MIB + 77);
        for at in [0, 3 * MIB + 5 * BLOCK] {
            let new = inserted(&old, at, &bytes(2, BLOCK));
            moved(fs, "inserted", &[], &old, &new, 1);
        }
    }

    [xfs, btrfs] fn what_was_cut_out_costs_nothing(fs: &Filesystem) {
        let old = bytes(1, 12 * MIB + 77);
        for (at, length) in [(0, BLOCK), (3 * MIB + 5 * BLOCK, 2 * MIB)] {
            let new = [&old[..at], &old[at + length..]].concat();
            moved(fs, "cut", &[], &old, &new, 0);
        }
    }

    [xfs, btrfs] fn halves_that_changed_places_are_found(fs: &Filesystem) {
        let old = bytes(1, 24 * MIB);
        let new = [&old[12 * MIB..], &old[..12 * MIB]].concat();
        moved(fs, "halves", &[], &old, &new, 0);
    }

    [xfs, btrfs] fn a_shifted_stream_is_followed_over_what_changed_in_it(fs: &Filesystem) {
        let old = bytes(1, 12 * MIB);
        let changed: Vec<_> = (30..3000).step_by(37).collect();
        let new = [&bytes(2, 3 * BLOCK), &with_blocks(&old, &changed)[..]].concat();
        let changed = changed.iter().filter(|block| **block < old.len() / BLOCK).count();
        moved(fs, "followed", &[], &old, &new, changed + 3);
    }

    [xfs, btrfs] fn it_comes_back_to_where_it_was(fs: &Filesystem) {
        // A part was replaced by one of another length, and later the difference was compensated.
        let old = bytes(1, 24 * MIB);
        let (a, b) = (6 * MIB, 14 * MIB);
        let new = [&old[..a], &bytes(2, 3 * BLOCK), &old[a..b], &old[b + 3 * BLOCK..]].concat();
        moved(fs, "back", &[], &old, &new, 3);
    }

    [xfs, btrfs] fn a_small_index_finds_it_too(fs: &Filesystem) {
        let old = bytes(1, 48 * MIB);
        let new = [&bytes(2, BLOCK), &old[..]].concat();
        moved(fs, "small", &["--index-memory", "16K"], &old, &new, 1);
    }

    [xfs, btrfs] fn a_stream_that_has_nothing_in_common_is_written(fs: &Filesystem) {
        moved(fs, "nothing", &[], &bytes(1, 40 * MIB), &bytes(2, 40 * MIB), 40 * MIB / BLOCK);
        // Sharing resumes where the stream equals the base again.
        let old = bytes(1, 40 * MIB);
        let new = [&bytes(2, 30 * MIB), &old[30 * MIB..]].concat();
        moved(fs, "late", &[], &old, &new, 30 * MIB / BLOCK);
        // The same for the base's holes, which are not in the index.
        let dest = fs.join("holes");
        write_synced(&dest, &old[..24 * MIB]);
        File::options()
            .write(true)
            .open(&dest)
            .and_then(|file| file.set_len(32 * MIB as u64))
            .expect("a file can grow");
        let new = [&bytes(2, 24 * MIB)[..], &vec![0; 8 * MIB]].concat();
        let summary = put_well(&dest, &[], &new);
        assert_eq!(number(&summary, "written_bytes"), 24 * MIB as u64, "{summary}");
    }

    [xfs, btrfs] fn data_that_repeats_itself_stays_what_it_is(fs: &Filesystem) {
        let dest = fs.join("repeats");
        let period = bytes(1, 5 * BLOCK);
        let old = [period.repeat(400), bytes(2, MIB), period.repeat(100)].concat();
        write_synced(&dest, &old);
        let new = [&bytes(3, 2 * BLOCK), &old[..MIB], &bytes(4, 100_000), &old[BLOCK..]].concat();
        put_well(&dest, &[], &new);
        let zeros = [vec![0; MIB], old.clone(), vec![0; 2 * MIB], old].concat();
        put_well(&dest, &[], &zeros);
    }

    [xfs, btrfs] fn random_edits_leave_exactly_the_stream(fs: &Filesystem) {
        let dest = fs.join("file");
        let mut old = bytes(1, 3 * MIB + 123);
        write_synced(&dest, &old);
        let mut state = 88172645463325252_u64;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        for round in 0..40 {
            let mut new = old.clone();
            for _ in 0..random(6) {
                let (from, to) = (random(new.len() / BLOCK + 1) * BLOCK, random(new.len() / BLOCK + 1) * BLOCK);
                let length = random(200 * BLOCK) / if random(2) == 0 { BLOCK } else { 1 } * BLOCK;
                let length = length.min(new.len() - from).min(300 * BLOCK);
                match random(5) {
                    0 => new = inserted(&new, to, &bytes(round * 100 + to as u64, length.max(1))),
                    1 => drop(new.drain(from..from + length)),
                    2 => new = inserted(&new, to, &new[from..from + length]),
                    3 => new[from..from + length].fill(0),
                    _ => new.truncate(new.len() - random(BLOCK).min(new.len())),
                }
                new.truncate(6 * MIB);
            }
            put_well(&dest, &[], &new);
            old = new;
        }
    }
}

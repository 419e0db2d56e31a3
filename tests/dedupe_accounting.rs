//! The bytes that dedupe reports as freed, against df, in cases where rounding shows: block sizes, files that end
//! within a block, compressed extents.

use crate::dedupe::dedupe_with;
use crate::harness::own::Own;
use crate::harness::*;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

/// Equal files of odd sizes, and larger files that are partly equal: some equal parts end where both files end.
fn odd_files(dir: &Path, content: fn(u64, usize) -> Vec<u8>) {
    fs::create_dir(dir).expect("a directory can be made");
    let sizes = [1, 511, 1025, 4095, 4096, 4097, 12_345, 16_385, 40_000, 65_537, 131_073, 300_001];
    for (number, size) in sizes.into_iter().enumerate() {
        for copy in 0..2 + number % 3 {
            write(dir.join(format!("{size} {copy}")), &content(number as u64, size));
        }
    }
    let parts: Vec<_> = (0..4).map(|part| content(100 + part, (1 << 20) + 70_001 * (part as usize + 1))).collect();
    for number in 0..12_usize {
        let mut whole = content(200 + number as u64, 65_536 * (1 + number % 3));
        for part in [number % 4, (number + 1 + number / 4) % 4] {
            whole.resize(whole.len().next_multiple_of(65_536), 0);
            whole.extend_from_slice(&parts[part][65_536 * (number % 2)..]);
        }
        write(dir.join(format!("parts {number}")), &whole);
    }
}

/// Bytes that zstd and lzo compress to about half.
fn compressible(seed: u64, length: usize) -> Vec<u8> {
    bytes(seed, length.div_ceil(2)).chunks(32).flat_map(|chunk| [chunk, chunk].concat()).take(length).collect()
}

/// The blocks of XFS's free space trees. They grow with the number of free ranges, and df counts them as used.
fn free_space_blocks(own: &mut Own) -> u64 {
    let mut blocks = 0;
    own.edit_image(|image| {
        for group in ["agf 0", "agf 1", "agf 2", "agf 3"] {
            let shown =
                finish(Command::new("xfs_db").args(["-r", "-c", group, "-c", "p btreeblks"]).arg(image)).expect(0);
            let number = shown.stdout.trim().rsplit(' ').next().and_then(|number| number.parse::<u64>().ok());
            blocks += number.expect("xfs_db shows a number");
        }
    });
    blocks
}

fn frees_to_the_block(block: u64, test: &str) {
    let Some(mut own) = Own::new(Kind::Xfs, test, 600, &["-b", &format!("size={block}")], "") else { return };
    let dir = own.join("tree");
    odd_files(&dir, bytes);
    let (used, trees) = (own.used(), free_space_blocks(&mut own));
    let planned = dedupe_with(&["--no-cache", "--dry-run", "--ranges", "always"], &dir, 0);
    let done = dedupe_with(&["--no-cache", "--ranges", "always"], &dir, 0);
    let freed = used - own.used() + (free_space_blocks(&mut own) - trees) * block;
    assert_eq!(number(&done, "freed_bytes"), freed, "{done}");
    // A dry run cannot know how many blocks the lists of extents will take.
    assert!(number(&planned, "freed_bytes").abs_diff(freed) <= 4 * block, "{planned}");
    own.assert_clean();
}

#[test]
fn freed_is_what_df_gives_back_to_the_block_of_1_kib_on_xfs() {
    frees_to_the_block(1 << 10, "dedupe_accounting::freed_is_what_df_gives_back_to_the_block_of_1_kib_on_xfs");
}

#[test]
fn freed_is_what_df_gives_back_to_the_block_of_4_kib_on_xfs() {
    frees_to_the_block(4 << 10, "dedupe_accounting::freed_is_what_df_gives_back_to_the_block_of_4_kib_on_xfs");
}

#[test]
fn freed_is_what_df_gives_back_to_the_block_of_16_kib_on_xfs() {
    frees_to_the_block(16 << 10, "dedupe_accounting::freed_is_what_df_gives_back_to_the_block_of_16_kib_on_xfs");
}

/// Writes a file so that XFS needs an extent for each block: first every other block, then those between them.
fn in_single_blocks(path: &Path, content: &[u8]) {
    const BLOCK: usize = 4096;
    let file = fs::File::create(path).expect("a file can be made");
    file.set_len(content.len() as u64).expect("a file can be all hole");
    for first in [0, 1] {
        for (number, block) in content.chunks(BLOCK).enumerate().skip(first).step_by(2) {
            file.write_all_at(block, (number * BLOCK) as u64).expect("a file can be written");
        }
        file.sync_all().expect("a file can be synced");
    }
}

#[test]
fn a_dry_run_knows_that_a_long_list_of_extents_goes_too() {
    let test = "dedupe_accounting::a_dry_run_knows_that_a_long_list_of_extents_goes_too";
    let Some(mut own) = Own::new(Kind::Xfs, test, 512, &[], "") else { return };
    let dir = own.join("tree");
    fs::create_dir(&dir).expect("a directory can be made");
    let content = bytes(1, 8 << 20);
    write(dir.join("whole"), &content);
    in_single_blocks(&dir.join("in blocks"), &content);
    assert!(tools::extents(&dir.join("in blocks")).len() > 1000);
    let used = own.used();
    let planned = dedupe_with(&["--no-cache", "--dry-run", "--ranges", "never"], &dir, 0);
    let done = dedupe_with(&["--no-cache", "--ranges", "never"], &dir, 0);
    let freed = number(&done, "freed_bytes");
    assert!(freed.abs_diff(8 << 20) > 16 << 10, "the list is counted: {done}");
    assert_eq!((number(&planned, "freed_bytes"), &planned["freed_is"]), (freed, &"about".into()), "{planned}");
    assert!(freed.abs_diff(used - own.used()) <= 16 << 10, "{used} {} {done}", own.used());
}

/// The bytes that Btrfs's data extents take, without metadata.
fn data_used(own: &mut Own) -> u64 {
    own.remount();
    let shown = finish(Command::new("btrfs").args(["filesystem", "df", "-b"]).arg(own.path())).expect(0);
    let used = shown.stdout.split("used=").nth(1).and_then(|rest| rest.split_whitespace().next());
    used.and_then(|used| used.parse().ok()).expect("btrfs shows the bytes used by data")
}

/// The bytes of all data extents, according to the extent tree.
fn data_extents(own: &mut Own) -> u64 {
    let mut bytes = 0;
    own.edit_image(|image| {
        let dump = finish(Command::new("btrfs").args(["inspect-internal", "dump-tree", "-t", "extent"]).arg(image));
        let dump = dump.expect(0).stdout;
        let lines: Vec<_> = dump.lines().collect();
        for pair in lines.windows(2) {
            // `item 4 key (13631488 EXTENT_ITEM 36864) …`, then `refs 1 gen 9 flags DATA`.
            if let Some((_, length)) = pair[0].split_once(" EXTENT_ITEM ")
                && pair[1].ends_with("flags DATA")
            {
                bytes += length.split(')').next().and_then(|length| length.parse::<u64>().ok()).expect("a length");
            }
        }
    });
    bytes
}

#[test]
fn an_extent_of_btrfs_is_freed_with_the_part_that_was_overwritten_before() {
    let test = "dedupe_accounting::an_extent_of_btrfs_is_freed_with_the_part_that_was_overwritten_before";
    let Some(mut own) = Own::new(Kind::Btrfs, test, 512, &[], "") else { return };
    let dir = own.join("tree");
    fs::create_dir(&dir).expect("a directory can be made");
    let (content, half) = (bytes(1, 8 << 20), 4 << 20);
    write(dir.join("a"), &content);
    clone(&dir.join("a"), &dir.join("a too"));
    write(dir.join("b"), &[&content[..half], &bytes(2, half)].concat());
    shapes::settle(&dir);
    overwrite(&dir.join("b"), half as u64, &content[half..]);
    let before = data_used(&mut own);
    let planned = dedupe_with(&["--no-cache", "--dry-run", "--ranges", "never"], &dir, 0);
    let done = dedupe_with(&["--no-cache", "--ranges", "never"], &dir, 0);
    assert_eq!(before - data_used(&mut own), 12 << 20, "{done}");
    assert_eq!(
        (number(&planned, "freed_bytes"), number(&done, "freed_bytes")),
        (12 << 20, 12 << 20),
        "{planned} {done}"
    );
}

/// Large compressed files with equal ranges, so that the rest of many extents is rewritten.
fn compressed_parts(dir: &Path) {
    fs::create_dir(dir).expect("a directory can be made");
    let parts: Vec<_> = (0..5).map(|part| compressible(300 + part, (1 << 20) + 200_000 * part as usize)).collect();
    for number in 0..20_usize {
        let mut whole = compressible(400 + number as u64, 4096 * (1 + number % 7));
        for part in [number % 5, (number + 1 + number / 5) % 5] {
            whole.extend_from_slice(&parts[part][65_536 * (number % 3)..]);
            whole.resize(whole.len().next_multiple_of(4096), 0);
        }
        write(dir.join(format!("{number}")), &whole);
    }
}

fn frees_to_the_byte(compression: &str, test: &str) {
    let options = format!("compress-force={compression}");
    let Some(mut own) = Own::new(Kind::Btrfs, test, 600, &[], &options) else { return };
    let dir = own.join("tree");
    compressed_parts(&dir);
    let used = data_extents(&mut own);
    let planned = dedupe_with(&["--no-cache", "--dry-run"], &dir, 0);
    let done = dedupe_with(&["--no-cache"], &dir, 0);
    let freed = used - data_extents(&mut own);
    assert!(number(&done, "rewritten_bytes") > 0 && number(&done, "range_bytes") > 5 << 20, "{done}");
    assert_eq!((number(&done, "freed_bytes"), done["freed_is"].as_str()), (freed, Some("exact")), "{done}");
    assert_eq!(planned["freed_is"], "about", "what is written anew compresses by itself: {planned}");
    assert!(number(&planned, "freed_bytes").abs_diff(freed) <= freed / 50, "{planned} {done}");
    own.assert_clean();
}

/// The extent tree contains new extents only after the next commit, but the files have them at once.
#[test]
fn compressed_files_that_no_commit_has_seen_have_their_real_lengths() {
    let test = "dedupe_accounting::compressed_files_that_no_commit_has_seen_have_their_real_lengths";
    let Some(mut own) = Own::new(Kind::Btrfs, test, 600, &[], "compress-force=zstd,commit=300") else { return };
    let dir = own.join("tree");
    odd_files(&dir, compressible);
    let plan = || dedupe_with(&["--no-cache", "--dry-run", "--ranges", "never"], &dir, 0);
    let fresh = plan();
    own.remount();
    let committed = plan();
    assert!(number(&fresh, "freed_bytes") > 100_000, "{fresh}");
    for field in ["freed_bytes", "freed_is"] {
        assert_eq!(fresh[field], committed[field], "{field}: {fresh} {committed}");
    }
    assert_eq!(fresh["freed_is"], "exact");
}

#[test]
fn freed_is_what_btrfs_gives_back_of_zstd_to_the_byte_when_the_rest_is_written_anew() {
    let test = "dedupe_accounting::freed_is_what_btrfs_gives_back_of_zstd_to_the_byte_when_the_rest_is_written_anew";
    frees_to_the_byte("zstd", test);
}

#[test]
fn freed_is_what_btrfs_gives_back_of_lzo_to_the_byte_when_the_rest_is_written_anew() {
    let test = "dedupe_accounting::freed_is_what_btrfs_gives_back_of_lzo_to_the_byte_when_the_rest_is_written_anew";
    frees_to_the_byte("lzo", test);
}

fn frees_to_half_a_percent(compression: &str, test: &str) {
    let options = format!("compress-force={compression}");
    let Some(mut own) = Own::new(Kind::Btrfs, test, 600, &[], &options) else { return };
    let dir = own.join("tree");
    odd_files(&dir, compressible);
    let used = data_used(&mut own);
    let done = dedupe_with(&["--no-cache"], &dir, 0);
    let freed = used - data_used(&mut own);
    let told = number(&done, "freed_bytes");
    assert!(
        freed > 1 << 20 && told.abs_diff(freed) * 200 <= used,
        "reported {told}, given back {freed} of {used}: {done}"
    );
    own.assert_clean();
}

#[test]
fn freed_is_what_btrfs_gives_back_of_zstd_to_half_a_percent() {
    frees_to_half_a_percent("zstd", "dedupe_accounting::freed_is_what_btrfs_gives_back_of_zstd_to_half_a_percent");
}

#[test]
fn freed_is_what_btrfs_gives_back_of_lzo_to_half_a_percent() {
    frees_to_half_a_percent("lzo", "dedupe_accounting::freed_is_what_btrfs_gives_back_of_lzo_to_half_a_percent");
}

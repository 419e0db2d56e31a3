//! `pleach dedupe`, block by block: files that are only partly equal, on filesystems of their own, verified with df,
//! cksum and xfs_io.

mod btrfs;
mod checksums;
mod random;

use crate::harness::meddler::Stop;
use crate::harness::own::Own;
use crate::harness::*;
use random::{Random, random_tree};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

const BLOCK: usize = 4096;

/// Makes a test of a function for each of the two filesystems, each with its own filesystem of this many MiB.
macro_rules! on_own_filesystems {
    ($(fn $name:ident($own:ident: &mut Own, $size:expr) $body:block)*) => {
        $(mod $name {
            use super::*;

            fn body($own: &mut Own) $body

            #[test]
            fn xfs() {
                run(Kind::Xfs, concat!(module_path!(), "::xfs"), $size, body);
            }

            #[test]
            fn btrfs() {
                run(Kind::Btrfs, concat!(module_path!(), "::btrfs"), $size, body);
            }
        })*
    };
}

mod kept;
mod plan;

fn run(kind: Kind, test: &str, mebibytes: u64, body: fn(&mut Own)) {
    let Some(mut own) = Own::new(kind, test, mebibytes, &[], "") else { return };
    fs::create_dir(own.join("tree")).expect("a directory can be made");
    body(&mut own);
    own.assert_clean();
}

fn args<'a>(options: &'a [&'a str], dir: &'a Path) -> Vec<&'a OsStr> {
    let mut args: Vec<&OsStr> = vec!["dedupe".as_ref(), "--json".as_ref()];
    args.extend(options.iter().map(OsStr::new));
    args.push(dir.as_ref());
    args
}

/// Runs `pleach dedupe` without a cache; it must succeed. Returns the summary.
#[track_caller]
fn dedupe(options: &[&str], dir: &Path) -> Value {
    let options = [&["--no-cache"], options].concat();
    pleach(args(&options, dir)).expect(0).summary()
}

/// Everything that a reader sees of a tree: contents, and lstat except the number of blocks.
fn seen(dir: &Path) -> (String, Vec<String>) {
    let state = |path: &PathBuf| {
        let meta = fs::symlink_metadata(path).expect("the file is there");
        let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
        format!("{path:?} {} {:o} {}:{} {} {times:?}", meta.ino(), meta.mode(), meta.uid(), meta.gid(), meta.size())
    };
    (tools::checksums(dir), tools::files(dir).iter().map(state).collect())
}

/// The used space: from df, and on Btrfs the part of it that is data.
fn used(own: &mut Own) -> u64 {
    let all = own.used();
    let run = finish(Command::new("btrfs").args(["filesystem", "df", "--raw"]).arg(own.path()));
    let data = run.stdout.lines().find(|line| line.starts_with("Data")).filter(|_| run.status == 0);
    let used = data.and_then(|line| line.split("used=").nth(1)).and_then(|used| used.trim().parse().ok());
    used.unwrap_or(all)
}

/// The bytes that the files below a directory use for the lists of their extents, on a filesystem that counts them
/// among the blocks of a file.
fn extent_list_bytes(dir: &Path) -> u64 {
    let bytes = |path: &PathBuf| {
        let data: u64 = tools::extents(path).iter().map(|extent| extent.length * 512).sum();
        fs::metadata(path).expect("the file is there").blocks() * 512 - data
    };
    tools::files(dir).iter().map(bytes).sum()
}

/// Asserts that the disk gave back the bytes reported as freed, within 1 % and some metadata.
#[track_caller]
fn assert_freed(summary: &Value, before: u64, after: u64) -> u64 {
    let (said, freed) = (number(summary, "freed_bytes"), before.saturating_sub(after));
    assert!(said.abs_diff(freed) <= said / 100 + (128 << 10), "said {said}, the disk gave back {freed}: {summary}");
    freed
}

/// Two images with the same runs of 64 KiB to 4 MiB in the same order, at different offsets, with other blocks between.
fn images(dir: &Path, size: usize, shared: usize) {
    let mut random = Random(0x5eed);
    let mut runs = Vec::new();
    let mut left = shared;
    while left > 0 {
        let run = left.min((16 + random.below(1009) as usize) * BLOCK);
        // No run is shorter than 64 KiB.
        let run = if left - run < 16 * BLOCK { left } else { run };
        runs.push(run);
        left -= run;
    }
    for name in ["a.img", "b.img"] {
        let seed = u64::from(name.as_bytes()[0]) * 1000;
        let mut gaps = (size - shared) / BLOCK - runs.len() - 1;
        let mut content = Vec::with_capacity(size);
        for (number, run) in (1..).zip(&runs) {
            let gap = random.below(gaps as u64 / 8 + 1) as usize;
            gaps -= gap;
            content.extend(bytes(seed + number, (gap + 1) * BLOCK));
            content.extend(bytes(number, *run));
        }
        content.extend(bytes(seed, (gaps + 1) * BLOCK));
        assert_eq!(content.len(), size);
        write(dir.join(name), &content);
    }
}

on_own_filesystems! {
    fn two_images_give_back_what_they_share(own: &mut Own, 512) {
        let dir = own.join("tree");
        images(&dir, 24 << 20, 18 << 20);
        let before = used(own);
        let (content, shared, lists) = (seen(&dir), 18 << 20, extent_list_bytes(&dir));
        let planned = dedupe(&["--dry-run"], &dir);
        assert_eq!(used(own), before, "a dry run changes nothing");
        // On another filesystem, so that df here shows only the space that the images freed.
        let scratch = tempfile::tempdir().expect("a directory can be made");
        let cache = scratch.path().join("cache");
        let cached = ["--cache", cache.to_str().expect("a plain path")];
        let done = pleach(args(&cached, &dir)).expect(0).summary();
        let after = used(own);
        assert!(assert_freed(&done, before, after) >= shared / 1000 * 999, "{done}");
        assert!(number(&done, "range_bytes") >= shared / 1000 * 999, "{done}");
        assert_eq!(number(&done, "pinned_bytes"), 0);
        for field in ["range_bytes", "read_bytes", "submitted_bytes", "rewritten_bytes"] {
            assert_eq!(number(&planned, field), number(&done, field), "{field}: {planned} {done}");
        }
        // An XFS file with more extents than fit into its inode keeps the list in blocks. A plan cannot know how many
        // blocks that will be.
        let listed = extent_list_bytes(&dir) - lists;
        assert_eq!(number(&planned, "freed_bytes"), number(&done, "freed_bytes") + listed, "{planned} {done}");
        assert_eq!(seen(&dir), content);
        let again = pleach(args(&cached, &dir)).expect(0).summary();
        for field in ["read_bytes", "freed_bytes", "submitted_bytes"] {
            assert_eq!(number(&again, field), 0, "{again}");
        }
        let again = dedupe(&[], &dir);
        for field in ["freed_bytes", "submitted_bytes", "rewritten_bytes"] {
            assert_eq!(number(&again, field), 0, "{again}");
        }
        let unshared = 2 * (24 << 20) - shared;
        assert!(number(&again, "read_bytes") <= unshared + (1 << 20), "what is shared is read once: {again}");
        let never = dedupe(&["--ranges", "never"], &dir);
        assert!(number(&never, "read_bytes") < 1 << 20, "{never}");
    }

    fn data_in_a_part_of_a_large_extent_is_freed_elsewhere_whichever_file_is_read_first(own: &mut Own, 512) {
        for (seed, (small, large)) in (1..).zip([("a", "b"), ("b", "a")]) {
            let dir = own.join(format!("tree {seed}"));
            fs::create_dir(&dir).expect("a directory can be made");
            let content = bytes(seed, 24 << 20);
            tools::write_in_one_extent(&dir.join(large), &content);
            tools::write_in_one_extent(&dir.join(small), &content[4 << 20..12 << 20]);
            let (before, content) = (used(own), seen(&dir));
            let done = dedupe(&[], &dir);
            assert!(assert_freed(&done, before, used(own)) >= (8 << 20) / 1000 * 999, "{done}");
            assert_eq!(number(&done, "rewritten_bytes"), 0, "{done}");
            assert_eq!(seen(&dir), content);
            let again = dedupe(&[], &dir);
            assert_eq!((number(&again, "freed_bytes"), number(&again, "pinned_bytes")), (0, 0), "{again}");
        }
    }

    fn who_shares_with_a_file_moves_with_it(own: &mut Own, 512) {
        let dir = own.join("tree");
        let common = bytes(1, 4 << 20);
        write(dir.join("a"), &[bytes(2, 2 << 20), common.clone()].concat());
        write(dir.join("b"), &[common, bytes(3, BLOCK)].concat());
        // c begins with all of b; d equals b up to the last block.
        clone(&dir.join("b"), &dir.join("c"));
        append(&dir.join("c"), &bytes(4, 1 << 20));
        clone(&dir.join("b"), &dir.join("d"));
        overwrite(&dir.join("d"), (4 << 20) as u64, &bytes(5, BLOCK));
        let (before, content) = (used(own), seen(&dir));
        let done = dedupe(&[], &dir);
        let freed = assert_freed(&done, before, used(own));
        assert!(freed >= (4 << 20) - (64 << 10), "{done}");
        assert_eq!(seen(&dir), content);
        let place = |name: &str| tools::extents(&dir.join(name)).first().map(|extent| extent.physical);
        assert_eq!((place("b"), place("b")), (place("c"), place("d")), "they still share");
    }

    fn what_something_outside_holds_is_left_and_said(own: &mut Own, 512) {
        let (dir, outside) = (own.join("tree"), own.join("outside"));
        fs::create_dir(&outside).expect("a directory can be made");
        images(&dir, 8 << 20, 6 << 20);
        for name in ["a.img", "b.img"] {
            clone(&dir.join(name), &outside.join(name));
        }
        let (before, content) = (used(own), seen(&dir));
        let layout = || tools::extents(&dir.join("b.img"));
        let extents = layout();
        let done = dedupe(&[], &dir);
        assert_eq!(number(&done, "freed_bytes"), 0, "{done}");
        assert_eq!(number(&done, "rewritten_bytes"), 0, "{done}");
        assert!(number(&done, "pinned_bytes") >= 5 << 20, "{done}");
        assert_eq!((layout(), used(own)), (extents, before), "no sharing that there was is undone");
        assert_eq!(seen(&dir), content);
    }

    fn the_copy_that_something_outside_holds_is_the_one_that_stays(own: &mut Own, 512) {
        let (dir, outside) = (own.join("tree"), own.join("outside"));
        fs::create_dir(&outside).expect("a directory can be made");
        images(&dir, 8 << 20, 6 << 20);
        clone(&dir.join("b.img"), &outside.join("b.img"));
        let before = used(own);
        let done = dedupe(&[], &dir);
        assert!(assert_freed(&done, before, used(own)) >= (6 << 20) / 100 * 99, "{done}");
    }

    fn zeros_become_holes(own: &mut Own, 512) {
        let dir = own.join("tree");
        let content = [bytes(1, 1 << 20), vec![0; 20 << 20], bytes(2, 1 << 20), vec![0; 32 << 10], bytes(3, 5000)];
        write(dir.join("zeros"), &content.concat());
        let (before, content) = (used(own), seen(&dir));
        let done = dedupe(&[], &dir);
        assert!(assert_freed(&done, before, used(own)) >= 20 << 20, "{done}");
        assert_eq!(seen(&dir), content);
        let extents = tools::extents(&dir.join("zeros"));
        let hole = (1 << 20) / 512..(21 << 20) / 512;
        assert!(
            extents.iter().all(|extent| extent.logical + extent.length <= hole.start || extent.logical >= hole.end)
        );
        assert_eq!(number(&dedupe(&[], &dir), "freed_bytes"), 0);
    }

    fn repeated_blocks_are_few_afterwards_and_have_few_references_each(own: &mut Own, 512) {
        let dir = own.join("tree");
        let size = 64 << 20;
        let one: Vec<u8> = bytes(7, BLOCK).into_iter().cycle().take(size).collect();
        let long: Vec<u8> = bytes(8, 3 * BLOCK).into_iter().cycle().take(size).collect();
        write(dir.join("one"), &one);
        write(dir.join("three"), &long);
        let (before, content) = (used(own), seen(&dir));
        let done = dedupe(&["--index-memory", "1M"], &dir);
        let freed = assert_freed(&done, before, used(own));
        assert!(freed >= 2 * size as u64 / 100 * 98, "{done}");
        for name in ["one", "three"] {
            assert!(tools::extents(&dir.join(name)).len() <= 1200, "{name}");
        }
        assert_eq!(seen(&dir), content);
        assert_eq!(number(&dedupe(&["--index-memory", "1M"], &dir), "freed_bytes"), 0);
    }

    fn repeated_data_comes_free_for_all_that_share_it(own: &mut Own, 512) {
        let dir = own.join("tree");
        let size: u64 = 24 << 20;
        // The same MiB over and over, each time with one block that differs, so that each copy is found in the previous
        // one.
        let content: Vec<u8> = (0..size as usize >> 20)
            .flat_map(|number| {
                let mut piece = bytes(9, 1 << 20);
                let at = number * BLOCK;
                piece[at..at + BLOCK].copy_from_slice(&bytes(100 + number as u64, BLOCK));
                piece
            })
            .collect();
        write(dir.join("first"), &content);
        for name in ["second", "third"] {
            clone(&dir.join("first"), &dir.join(name));
        }
        let (before, content) = (used(own), seen(&dir));
        let done = dedupe(&["--ranges", "always"], &dir);
        assert!(assert_freed(&done, before, used(own)) >= size / 100 * 90, "{done}");
        assert_eq!(seen(&dir), content);
        let again = dedupe(&["--ranges", "always"], &dir);
        assert_eq!((number(&again, "freed_bytes"), number(&again, "submitted_bytes")), (0, 0), "{again}");
    }

    fn ends_within_a_block_are_shared_too(own: &mut Own, 512) {
        let dir = own.join("tree");
        let end = bytes(1, (2 << 20) + 1234);
        write(dir.join("a"), &[bytes(2, 1 << 20), end.clone()].concat());
        write(dir.join("b"), &[bytes(3, 1 << 19), end].concat());
        let (before, content) = (used(own), seen(&dir));
        let done = dedupe(&[], &dir);
        let freed = assert_freed(&done, before, used(own));
        assert!(freed >= 2 << 20, "{done}");
        assert_eq!(number(&done, "range_bytes"), (2 << 20) + 1234, "{done}");
        assert_eq!(seen(&dir), content);
    }

    fn small_files_are_looked_at_when_asked_for(own: &mut Own, 512) {
        let dir = own.join("tree");
        for name in 0..8 {
            write(dir.join(name.to_string()), &[bytes(100 + name, 40 << 10), bytes(1, 400 << 10)].concat());
        }
        let before = used(own);
        assert_eq!(number(&dedupe(&[], &dir), "range_bytes"), 0);
        assert_eq!(number(&dedupe(&["--ranges", "always", "--min-run", "512K"], &dir), "range_bytes"), 0);
        let done = dedupe(&["--ranges", "always"], &dir);
        assert!(assert_freed(&done, before, used(own)) >= 7 * (400 << 10), "{done}");
    }

    fn random_trees_keep_their_contents_and_give_back_what_is_said(own: &mut Own, 768) {
        for seed in 1..=6 {
            let dir = own.join(format!("tree/{seed}"));
            fs::create_dir(&dir).expect("a directory can be made");
            let mut random = Random((seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            random_tree(&dir, &mut random);
            let (before, content) = (used(own), seen(&dir));
            let options = ["--ranges", "always", "--min-run", "16K", "--index-memory", "256K"];
            let done = dedupe(&options, &dir);
            let after = used(own);
            assert_eq!(seen(&dir), content, "seed {seed}: {done}");
            assert_freed(&done, before, after);
            let again = dedupe(&options, &dir);
            let later = used(own);
            assert_freed(&again, after, later);
            assert!(number(&again, "freed_bytes") <= number(&done, "freed_bytes") / 10 + (1 << 20), "{done} {again}");
            assert_eq!(seen(&dir), content, "seed {seed}: {again}");
        }
    }

    fn nothing_that_is_written_meanwhile_is_lost(own: &mut Own, 512) {
        let dir = own.join("tree");
        images(&dir, 16 << 20, 12 << 20);
        let stop = AtomicBool::new(false);
        let path = dir.join("b.img");
        let size = 16 << 20;
        let mut expected = fs::read(&path).expect("the image can be read");
        let expected = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let file = File::options().write(true).open(&path).expect("the image can be opened");
                let mut random = Random(99);
                while !stop.load(Ordering::Relaxed) {
                    let at = random.below(size - 10_000);
                    let new = bytes(random.below(1 << 40), 1 + random.below(9_000) as usize);
                    file.write_all_at(&new, at).expect("the image can be written");
                    expected[at as usize..at as usize + new.len()].copy_from_slice(&new);
                }
                expected
            });
            let until_here = Stop(&stop);
            for _ in 0..4 {
                // Warnings about changing files are allowed; they cause exit status 3.
                let run = pleach(args(&["--no-cache"], &dir));
                assert!([0, 3].contains(&run.status), "{run:?}");
            }
            drop(until_here);
            writer.join().expect("the writer ends")
        });
        own.remount();
        assert!(fs::read(&path).expect("the image can be read") == expected, "what was written is there");
    }

    fn anyone_may_share_what_is_theirs(own: &mut Own, 512) {
        let dir = own.join("tree");
        images(&dir, 24 << 20, 18 << 20);
        finish(Command::new("chown").args(["-R", "65534:65534"]).arg(&dir)).expect(0);
        let (before, content) = (used(own), seen(&dir));
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_pleach")]);
        let done = finish(setpriv.args(args(&["--no-cache"], &dir))).expect(0).summary();
        assert!(assert_freed(&done, before, used(own)) >= (18 << 20) / 100 * 99, "{done}");
        assert_eq!(seen(&dir), content);
    }
}

fn append(path: &Path, content: &[u8]) {
    let file = File::options().append(true).open(path).expect("the file can be opened");
    std::io::Write::write_all(&mut &file, content).expect("the file can be written");
}

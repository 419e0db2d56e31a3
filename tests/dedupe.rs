//! `pleach dedupe`: which data it shares, reads and frees, verified with df and xfs_io.

use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt as _};
use std::path::Path;
use std::process::Command;

/// Runs `pleach dedupe --json` with these options on a directory, with a cache next to it, and returns the summary.
#[track_caller]
pub(crate) fn dedupe_with(options: &[&str], dir: &Path, status: i32) -> Value {
    run_dedupe(options, dir).expect(status).summary()
}

/// The same, for any result.
pub(crate) fn run_dedupe(options: &[&str], dir: &Path) -> Run {
    settle();
    let mut cache = dir.as_os_str().to_owned();
    cache.push(".cache");
    let mut args: Vec<&OsStr> = vec!["dedupe".as_ref(), "--json".as_ref()];
    args.extend(options.iter().map(OsStr::new));
    if !options.contains(&"--no-cache") {
        args.extend(["--cache".as_ref(), cache.as_os_str()]);
    }
    args.push(dir.as_ref());
    pleach(args)
}

#[track_caller]
pub(crate) fn dedupe(dir: &Path) -> Value {
    dedupe_with(&[], dir, 0)
}

pub(crate) fn clone(from: &Path, to: &Path) {
    finish(Command::new("cp").args(["--reflink=always", "--preserve=all"]).arg(from).arg(to)).expect(0);
}

/// Asserts that two files, neither of them inline, occupy the same blocks.
#[track_caller]
pub(crate) fn assert_shared(a: &Path, b: &Path) {
    assert!(tools::assert_same_blocks(a, b), "{} is not inline", a.display());
}

/// Equal files of many sizes, small and large, in pairs and larger groups, and files that only look alike.
fn copies(dir: &Path) {
    let sizes = [1, 4096, 5000, 65_536, 65_537, 200_001, 1 << 20, (3 << 20) + 17, (40 << 20) + 4096];
    for (number, size) in sizes.into_iter().enumerate() {
        let content = bytes(number as u64, size);
        for copy in ["a", "b", "c"] {
            fs::create_dir_all(dir.join(copy)).expect("a directory can be made");
            write(dir.join(copy).join(format!("{size}")), &content);
        }
        let mut other = content.clone();
        other[size - 1] ^= 1;
        write(dir.join("a").join(format!("{size} other end")), &other);
    }
    write(dir.join("alone"), &bytes(77, 12_345));
    write(dir.join("empty"), b"");
    write(dir.join("empty too"), b"");
}

/// Everything that a reader can see of a tree: content, lstat, extended attributes.
fn everything(dir: &Path) -> (String, Vec<String>, Vec<String>) {
    let paths = tools::paths(dir);
    (tools::checksums(dir), tools::inventory(dir), paths.iter().map(|path| tools::xattrs(path)).collect())
}

/// On its own filesystem: dedupe leaves the tree the same, and df confirms the reported number of freed bytes.
fn frees_what_it_says(kind: Kind, test: &str) {
    let Some(mut own) = Own::new(kind, test, 1024, &[], "") else { return };
    let dir = own.join("tree");
    fs::create_dir(&dir).expect("a directory can be made");
    copies(&dir);
    fs::create_dir(dir.join("kinds")).expect("a directory can be made");
    tree::every_kind(&dir.join("kinds"));
    let used = own.used();
    let before = everything(&dir);
    let planned = dedupe_with(&["--dry-run"], &dir, 0);
    assert_eq!(own.used(), used, "a dry run changes nothing");
    own.remount();
    let done = dedupe(&dir);
    // The cache is beside the tree.
    let cache = fs::metadata(own.join("tree.cache")).expect("the run left a cache").blocks() * 512;
    let freed = used - own.used() + cache;
    assert_eq!(everything(&dir), before, "what a reader sees, after a remount");
    let said = number(&done, "freed_bytes");
    assert!(said > 80 << 20, "{done}");
    // Btrfs's metadata grows and shrinks independently.
    let allowed = if kind == Kind::Btrfs { said / 100 + (1 << 20) } else { 16 << 10 };
    assert!(said.abs_diff(freed) <= allowed, "said {said}, df gave back {freed}, with a cache of {cache}");
    for field in ["freed_bytes", "duplicate_files", "duplicate_bytes", "pinned_bytes", "range_bytes"] {
        assert_eq!(number(&planned, field), number(&done, field), "{field} as predicted\n{planned}\n{done}");
    }
    let again = dedupe(&dir);
    for field in ["freed_bytes", "read_bytes", "duplicate_files", "submitted_bytes"] {
        assert_eq!(number(&again, field), 0, "{field} of a second run: {again}");
    }
    assert!(number(&again, "cache_hits") > 0);
    assert_eq!(everything(&dir), before);
    own.assert_clean();
}

#[test]
fn the_tree_stays_the_same_and_df_gives_back_what_is_said_xfs() {
    frees_what_it_says(Kind::Xfs, "dedupe::the_tree_stays_the_same_and_df_gives_back_what_is_said_xfs");
}

#[test]
fn the_tree_stays_the_same_and_df_gives_back_what_is_said_btrfs() {
    frees_what_it_says(Kind::Btrfs, "dedupe::the_tree_stays_the_same_and_df_gives_back_what_is_said_btrfs");
}

/// Something outside holds one copy: letting go of that copy frees nothing, and the summary says so.
fn tells_what_is_pinned(kind: Kind, test: &str) {
    let Some(mut own) = Own::new(kind, test, 512, &[], "") else { return };
    let (dir, outside) = (own.join("tree"), own.join("outside"));
    fs::create_dir(&dir).expect("a directory can be made");
    for name in ["a", "b", "c"] {
        write(dir.join(name), &bytes(1, 10 << 20));
    }
    // Two of the three are held from outside: one of these stays the source, the other one is pinned.
    clone(&dir.join("b"), &outside);
    clone(&dir.join("c"), &own.join("outside too"));
    let used = own.used();
    let done = dedupe(&dir);
    let freed = used - own.used();
    assert_eq!(number(&done, "pinned_bytes"), 10 << 20, "{done}");
    assert_eq!(number(&done, "freed_bytes"), 10 << 20, "{done}");
    assert!(freed.abs_diff(10 << 20) < 1 << 20, "df gave back {freed}");
}

#[test]
fn what_something_outside_holds_is_pinned_and_not_called_freed_xfs() {
    tells_what_is_pinned(Kind::Xfs, "dedupe::what_something_outside_holds_is_pinned_and_not_called_freed_xfs");
}

#[test]
fn what_something_outside_holds_is_pinned_and_not_called_freed_btrfs() {
    tells_what_is_pinned(Kind::Btrfs, "dedupe::what_something_outside_holds_is_pinned_and_not_called_freed_btrfs");
}

#[test]
fn files_that_share_are_freed_when_the_last_of_them_lets_go() {
    let test = "dedupe::files_that_share_are_freed_when_the_last_of_them_lets_go";
    let Some(mut own) = Own::new(Kind::Xfs, test, 512, &[], "") else { return };
    let dir = own.join("tree");
    fs::create_dir(&dir).expect("a directory can be made");
    for (original, copies) in [("a", 3), ("b", 2), ("c", 1)] {
        write(dir.join(original), &bytes(5, 8 << 20));
        for copy in 0..copies {
            clone(&dir.join(original), &dir.join(format!("{original}{copy}")));
        }
    }
    let used = own.used();
    let planned = dedupe_with(&["--dry-run"], &dir, 0);
    let done = dedupe(&dir);
    let freed = used - own.used();
    assert_eq!((number(&done, "freed_bytes"), number(&done, "pinned_bytes")), (16 << 20, 0), "{done}");
    assert_eq!(number(&planned, "freed_bytes"), 16 << 20, "{planned}");
    assert!(freed.abs_diff(16 << 20) <= 16 << 10, "df gave back {freed}");
    assert_eq!(number(&done, "duplicate_files"), 3 + 2, "the fewer go to the more");
    assert_eq!(number(&done, "already_shared_bytes"), (3 + 2 + 1) * (8 << 20));
}

on_filesystems! {
    [xfs, btrfs] fn equal_files_lie_on_the_same_blocks(fs: &Filesystem) {
        let dir = fs.dir("tree");
        copies(&dir);
        let done = dedupe(&dir);
        for file in tools::files(&dir.join("b")) {
            let name = file.file_name().expect("a file has a name");
            if fs::metadata(&file).expect("the file is there").len() > 4096 {
                assert_shared(&dir.join("a").join(name), &file);
                assert_shared(&dir.join("c").join(name), &file);
            }
        }
        assert_eq!(number(&done, "files"), 9 * 4 + 3);
        let submitted = number(&done, "submitted_bytes");
        assert!(number(&done, "duplicate_bytes") <= submitted, "{done}");
    }

    [xfs, btrfs] fn four_snapshots_made_of_clones_cost_no_reading(fs: &Filesystem) {
        let dir = fs.dir("tree");
        for name in ["x", "y", "z"] {
            write(dir.join(name), &bytes(9, 300_000));
        }
        // Alone with its content, and large enough to be examined block by block.
        tools::write_in_one_extent(&dir.join("large"), &bytes(10, 3 << 20));
        dedupe_with(&["--no-cache"], &dir, 0);
        for snapshot in 1..=4 {
            let to = dir.join(format!("snapshot {snapshot}"));
            fs::create_dir(&to).expect("a directory can be made");
            for name in ["x", "y", "z", "large"] {
                clone(&dir.join(name), &to.join(name));
            }
        }
        let done = dedupe_with(&["--no-cache"], &dir, 0);
        assert_eq!((number(&done, "read_bytes"), number(&done, "submitted_bytes")), (0, 0), "{done}");
        assert_eq!(number(&done, "already_shared_bytes"), 14 * 300_000 + 4 * (3 << 20));
        // As soon as one of them shares with no other file, all are examined.
        tools::write_in_one_extent(&dir.join("other"), &[bytes(11, 1 << 20), bytes(10, 3 << 20)].concat());
        let done = dedupe_with(&["--no-cache"], &dir, 0);
        assert_eq!(number(&done, "range_bytes"), 3 << 20, "{done}");
    }

    [xfs, btrfs] fn only_the_half_that_is_not_shared_is_handed_over(fs: &Filesystem) {
        let dir = fs.dir("tree");
        let content = bytes(3, 8 << 20);
        let (a, b) = (dir.join("a"), dir.join("b"));
        write(&a, &content);
        finish(Command::new("sync").arg(&a)).expect(0);
        clone(&a, &b);
        // The same bytes again, at a new address.
        let file = File::options().write(true).open(&b).expect("a file can be opened");
        file.write_all_at(&content[4 << 20..], 4 << 20).expect("a file can be written");
        file.sync_all().expect("a file can be synced");
        let done = dedupe(&dir);
        assert_eq!(number(&done, "submitted_bytes"), 4 << 20, "{done}");
        assert_eq!(number(&done, "duplicate_files"), 1);
        assert_shared(&a, &b);
    }

    [xfs, btrfs] fn hard_links_count_once_and_are_no_duplicates(fs: &Filesystem) {
        let dir = fs.dir("tree");
        write(dir.join("a"), &bytes(4, 100_000));
        for name in ["b", "c"] {
            fs::hard_link(dir.join("a"), dir.join(name)).expect("a link can be made");
        }
        let done = dedupe(&dir);
        assert_eq!((number(&done, "files"), number(&done, "bytes")), (1, 100_000));
        assert_eq!((number(&done, "read_bytes"), number(&done, "duplicate_files")), (0, 0), "singles are never opened");
        write(dir.join("d"), &bytes(4, 100_000));
        let done = dedupe(&dir);
        assert_eq!((number(&done, "files"), number(&done, "duplicate_files")), (2, 1));
        assert_shared(&dir.join("c"), &dir.join("d"));
    }

    [xfs, btrfs] fn a_hole_takes_the_place_of_written_zeros(fs: &Filesystem) {
        let dir = fs.dir("tree");
        let mut content = bytes(6, 6 << 20);
        content[1 << 20..5 << 20].fill(0);
        write(dir.join("written"), &content);
        let sparse = File::create(dir.join("sparse")).expect("a file can be made");
        sparse.write_all_at(&content[..1 << 20], 0).expect("a file can be written");
        sparse.write_all_at(&content[5 << 20..], 5 << 20).expect("a file can be written");
        drop(sparse);
        write(dir.join("zeros"), &vec![0; 3 << 20]);
        File::create(dir.join("hole")).and_then(|file| file.set_len(3 << 20)).expect("a file can be all hole");
        let before = tools::checksums(&dir);
        let done = dedupe(&dir);
        assert_eq!(tools::checksums(&dir), before);
        assert_eq!(number(&done, "duplicate_files"), 2, "{done}");
        assert!(tools::extents(&dir.join("zeros")).is_empty() || fs.kind == Kind::Xfs);
        let again = dedupe(&dir);
        assert_eq!(number(&again, "read_bytes"), 0, "{again}");
    }

    [xfs, btrfs] fn a_plan_has_a_line_for_each_file_and_changes_nothing(fs: &Filesystem) {
        let dir = fs.dir("tree");
        for name in ["a", "b", "c"] {
            write(dir.join(name), &bytes(1, 50_000));
        }
        finish(Command::new("sync").arg("-f").arg(&dir)).expect(0);
        let extents = || ["a", "b", "c"].map(|name| tools::extents(&dir.join(name)));
        let before = extents();
        let run = run_dedupe(&["--dry-run"], &dir).expect(0);
        let lines = run.json();
        let shares: Vec<_> = lines.iter().filter(|line| line["type"] == "share").collect();
        assert_eq!(shares.len(), 2, "{lines:?}");
        for line in shares {
            let (path, source) = (line["path"].as_str().unwrap(), line["source"]["path"].as_str().unwrap());
            assert!(Path::new(path).is_file() && Path::new(source).is_file() && path != source, "{line}");
            assert_eq!(number(line, "bytes"), 50_000);
        }
        assert_eq!(extents(), before);
        assert!(!fs.join("tree.cache").exists(), "a dry run keeps nothing");
        assert_eq!(run.summary()["dry_run"], true);
    }

    [xfs, btrfs] fn what_is_excluded_is_left_alone(fs: &Filesystem) {
        let dir = fs.dir("tree");
        fs::create_dir(dir.join("cache")).expect("a directory can be made");
        for name in ["a", "b", "b.iso", "cache/c"] {
            write(dir.join(name), &bytes(1, 50_000));
        }
        let done = dedupe_with(&["--exclude", "*.iso", "--exclude", "cache/"], &dir, 0);
        assert_eq!((number(&done, "files"), number(&done, "duplicate_files")), (2, 1), "{done}");
        run_dedupe(&["--exclude", "a{"], &dir).expect(2).saying("pattern");
    }

    [xfs, btrfs] fn files_may_be_named_themselves(fs: &Filesystem) {
        let dir = fs.dir("tree");
        for name in ["a", "b", "c"] {
            write(dir.join(name), &bytes(1, 50_000));
        }
        let args = [OsStr::new("dedupe"), "--json".as_ref(), "--no-cache".as_ref()];
        let (a, b) = (dir.join("a"), dir.join("b"));
        let done = pleach(args.into_iter().chain([a.as_os_str(), b.as_os_str()])).expect(0).summary();
        assert_eq!((number(&done, "files"), number(&done, "duplicate_files")), (2, 1), "{done}");
        assert_shared(&a, &b);
    }

    [xfs, btrfs] fn without_time_nothing_is_begun(fs: &Filesystem) {
        let dir = fs.dir("tree");
        copies(&dir);
        let run = run_dedupe(&["--max-time", "0s"], &dir).expect(0).saying("time limit reached");
        let done = run.summary();
        assert_eq!(done["out_of_time"], true);
        assert_eq!((number(&done, "duplicate_files"), number(&done, "read_bytes")), (0, 0), "{done}");
        let all = dedupe_with(&["--max-time", "1h"], &dir, 0);
        assert_eq!(all["out_of_time"], false);
        assert_eq!(number(&all, "duplicate_files"), 9 * 2 - if fs.kind == Kind::Btrfs { 2 } else { 0 }, "{all}");
    }

    [btrfs] fn files_of_several_subvolumes_share_and_a_read_only_snapshot_is_the_source(fs: &Filesystem) {
        let dir = fs.dir("tree");
        let subvolume = |name: &str| {
            let path = dir.join(name);
            finish(Command::new("btrfs").args(["-q", "subvolume", "create"]).arg(&path)).expect(0);
            path
        };
        let (one, two) = (subvolume("one"), subvolume("two"));
        write(one.join("file"), &bytes(1, 1 << 20));
        write(two.join("file"), &bytes(1, 1 << 20));
        let frozen = dir.join("frozen");
        let mut snapshot = Command::new("btrfs");
        finish(snapshot.args(["-q", "subvolume", "snapshot", "-r"]).arg(&two).arg(&frozen)).expect(0);
        write(two.join("file"), &bytes(1, 1 << 20));
        finish(Command::new("sync").arg("-f").arg(&dir)).expect(0);
        let before = tools::extents(&frozen.join("file"));
        let done = dedupe_with(&["--one-file-system"], &dir, 0);
        assert_eq!((number(&done, "files"), number(&done, "duplicate_files")), (3, 2), "{done}");
        assert_shared(&one.join("file"), &two.join("file"));
        assert_shared(&one.join("file"), &frozen.join("file"));
        let places = |extents: &[tools::Extent]| extents.iter().map(|extent| extent.physical).collect::<Vec<_>>();
        assert_eq!(places(&tools::extents(&frozen.join("file"))), places(&before), "the snapshot's extents stay");
        for path in [one, two, frozen] {
            finish(Command::new("btrfs").args(["-q", "subvolume", "delete"]).arg(path)).expect(0);
        }
    }
}

#[test]
fn a_compressed_copy_is_the_source_and_is_counted_as_it_lies_on_the_disk() {
    let test = "dedupe::a_compressed_copy_is_the_source_and_is_counted_as_it_lies_on_the_disk";
    let Some(mut own) = Own::new(Kind::Btrfs, test, 512, &[], "") else { return };
    let dir = own.join("tree");
    fs::create_dir(&dir).expect("a directory can be made");
    let content: Vec<u8> = (0..16_u32 << 20).map(|at| (at / 1000) as u8).collect();
    write(dir.join("plain"), &content);
    own.remount_with("compress-force=zstd");
    write(dir.join("small"), &content);
    write(dir.join("small too"), &content);
    let used = own.used();
    let done = dedupe(&dir);
    let freed = used - own.used();
    let said = number(&done, "freed_bytes");
    assert!(freed > 16 << 20 && said.abs_diff(freed) <= said / 100 + (1 << 20), "said {said}, df gave back {freed}");
    let of = |name: &str| tools::extents(&dir.join(name));
    assert!(
        of("plain").iter().all(|extent| extent.flags & 8 != 0),
        "the compressed extents are taken: {:?}",
        of("plain")
    );
    assert_eq!(number(&dedupe(&dir), "read_bytes"), 0);
}

//! The cache that `pleach dedupe` keeps for its next run.

use crate::dedupe::{assert_shared, dedupe, run_dedupe};
use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

on_filesystems! {
    [xfs, btrfs] fn a_changed_file_is_looked_at_again(fs: &Filesystem) {
        let dir = fs.dir("tree");
        for name in ["a", "b", "c"] {
            write(dir.join(name), &bytes(1, 50_000));
        }
        write(dir.join("d"), &bytes(2, 50_000));
        assert_eq!(number(&dedupe(&dir), "duplicate_files"), 2);
        write(dir.join("d"), &bytes(1, 50_000));
        write(dir.join("c"), &bytes(2, 50_000));
        let done = dedupe(&dir);
        assert_eq!(number(&done, "duplicate_files"), 1, "{done}");
        assert_shared(&dir.join("a"), &dir.join("d"));
        assert_eq!(number(&done, "cache_hits"), 2);
    }

    [xfs, btrfs] fn a_second_run_over_unchanged_files_opens_none(fs: &Filesystem) {
        let dir = fs.dir("tree");
        // Inline on Btrfs, small, and large enough for the second stage; each size has an equal pair and a file that
        // differs.
        for size in [100, 2000, 5000, 200_000, 2 << 20] {
            for (name, content) in [("a", 1), ("b", 1), ("c", 2)] {
                write(dir.join(format!("{size} {name}")), &bytes(content, size));
            }
        }
        let first = dedupe(&dir);
        assert!(number(&first, "opened_files") >= 15, "{first}");
        let second = dedupe(&dir);
        for field in ["opened_files", "read_bytes", "submitted_bytes"] {
            assert_eq!(number(&second, field), 0, "{field}: {second}");
        }
        assert_eq!(number(&second, "cache_hits"), 15, "{second}");
        let inline = |summary: &serde_json::Value| summary["skipped"]["inline"].as_u64().unwrap_or(0);
        assert_eq!(inline(&second), inline(&first), "they are reported again");
        assert_eq!(inline(&first) > 0, fs.kind == Kind::Btrfs, "{first}");
        // A file that was inline, and no longer is, is examined.
        write(dir.join("100 a"), &bytes(1, 5000));
        let third = dedupe(&dir);
        assert!(number(&third, "opened_files") > 0 && number(&third, "duplicate_files") == 1, "{third}");
    }

    [xfs, btrfs] fn a_damaged_cache_is_made_anew_with_a_word(fs: &Filesystem) {
        let dir = fs.dir("tree");
        for name in ["a", "b", "c"] {
            write(dir.join(name), &bytes(1, 50_000));
        }
        let cache = fs.join("tree.cache");
        dedupe(&dir);
        let whole = fs::read(&cache).expect("a cache was written");
        assert_eq!(whole.len(), 192 + 3 * 64 + 64, "64 bytes a candidate, and for the filesystem");
        let damages: [(&str, Vec<u8>); 4] = [
            ("version", whole.iter().enumerate().map(|(at, byte)| if at == 16 { 9 } else { *byte }).collect()),
            ("cut short", whole[..100].to_vec()),
            ("cut short", whole[..16].to_vec()),
            ("damaged", whole.iter().enumerate().map(|(at, byte)| if at == 220 { !byte } else { *byte }).collect()),
        ];
        for (word, damaged) in damages {
            write(&cache, &damaged);
            let run = run_dedupe(&[], &dir).expect(0).saying(word).saying("replacing it");
            assert_eq!(number(&run.summary(), "cache_hits"), 0);
            assert_eq!(number(&dedupe(&dir), "cache_hits"), 3, "after {word}");
        }
    }

    [xfs] fn only_a_cache_is_replaced_by_the_cache(fs: &Filesystem) {
        let dir = fs.dir("tree");
        for name in ["a", "b"] {
            write(dir.join(name), &bytes(1, 50_000));
        }
        let at = fs.dir("elsewhere");
        write(at.join("text"), b"a text");
        write(at.join("text.new"), b"another");
        write(at.join("empty"), b"");
        fs::create_dir(at.join("directory")).expect("a directory can be made");
        symlink("cache", at.join("link")).expect("a link can be made");
        symlink("nowhere", at.join("loose")).expect("a link can be made");
        finish(Command::new("mkfifo").arg(at.join("pipe"))).expect(0);
        finish(Command::new("mknod").arg(at.join("null")).args(["c", "1", "3"])).expect(0);
        settle();
        let run = |name: &str, more: &[&str]| {
            let mut args: Vec<OsString> =
                vec!["dedupe".into(), "--json".into(), "--cache".into(), at.join(name).into()];
            args.extend(more.iter().map(OsString::from));
            args.push(dir.clone().into());
            pleach(args)
        };
        let before = tools::inventory(&at);
        for name in ["text", "empty", "directory", "link", "loose", "pipe", "null", "missing/cache"] {
            for more in [&[][..], &["--dry-run"]] {
                run(name, more).expect(2).saying("keep the cache in");
            }
        }
        assert_eq!(tools::inventory(&at), before, "nothing was replaced or left");
        let is_shared = |name: &str| tools::extents(&dir.join(name)).iter().any(tools::Extent::is_shared);
        assert!(!is_shared("a") && !is_shared("b"), "refused before any work");
        run("cache", &[]).expect(0);
        assert_eq!(names(&at).len(), 9, "only the cache was added: {:?}", names(&at));
    }

    [xfs] fn a_cache_that_others_can_write_is_not_believed(fs: &Filesystem) {
        let dir = fs.dir("tree");
        for name in ["a", "b"] {
            write(dir.join(name), &bytes(1, 50_000));
        }
        dedupe(&dir);
        fs::set_permissions(fs.join("tree.cache"), fs::Permissions::from_mode(0o666)).expect("a mode can be set");
        let run = run_dedupe(&[], &dir).expect(0).saying("can be written by others");
        assert_eq!(number(&run.summary(), "cache_hits"), 0);
        assert_eq!(number(&dedupe(&dir), "cache_hits"), 2, "it was replaced");
        finish(Command::new("chown").arg("65534").arg(fs.join("tree.cache"))).expect(0);
        run_dedupe(&[], &dir).expect(2).saying("belongs to another user");
    }

    [xfs, btrfs] fn files_as_young_as_the_run_are_kept_as_well(fs: &Filesystem) {
        for round in 0..5 {
            let dir = fs.dir(format!("tree {round}"));
            let cache = fs.join(format!("cache {round}"));
            let args = || [OsStr::new("dedupe"), "--json".as_ref(), "--cache".as_ref(), cache.as_ref(), dir.as_ref()];
            for name in ["a", "b", "c"] {
                write(dir.join(name), &bytes(1, 50_000));
            }
            // No pause: the last file was written in this very tick.
            pleach(args()).expect(0);
            let second = pleach(args()).expect(0).summary();
            for field in ["opened_files", "read_bytes"] {
                assert_eq!(number(&second, field), 0, "{field}: {second}");
            }
        }
    }

    [xfs, btrfs] fn a_new_file_where_ranges_were_freed_is_not_taken_for_the_old_one(fs: &Filesystem) {
        let Some(mut own) = Own::new(fs.kind, "a_new_file_where_ranges_were_freed", 512, &[], "") else { return };
        let scratch = tempfile::tempdir().expect("a directory can be made");
        let (dir, cache) = (own.join("tree"), scratch.path().join("cache"));
        fs::create_dir(&dir).expect("a directory can be made");
        // The files differ, but the first contains all of the second: the second's blocks are freed, its size and times
        // stay.
        let content = bytes(1, 8 << 20);
        write(dir.join("a"), &content);
        write(dir.join("b"), &[&content[4 << 20..], &content[..4 << 20]].concat());
        own.remount();
        let run = || {
            settle();
            let args = [OsStr::new("dedupe"), "--json".as_ref(), "--cache".as_ref(), cache.as_ref(), dir.as_ref()];
            pleach(args).expect(0).summary()
        };
        let first = run();
        assert_eq!(number(&first, "freed_bytes"), 8 << 20, "{first}");
        own.remount();
        // On an empty filesystem the new file takes the blocks that were just freed.
        write(dir.join("c"), &content);
        let second = run();
        assert_eq!((number(&second, "duplicate_files"), number(&second, "freed_bytes")), (1, 8 << 20), "{second}");
        assert_shared(&dir.join("a"), &dir.join("c"));
        own.assert_clean();
    }

    [xfs] fn the_cache_itself_is_left_alone(fs: &Filesystem) {
        let dir = fs.dir("tree");
        write(dir.join("a"), &bytes(1, 50_000));
        write(dir.join("b"), &bytes(1, 50_000));
        let cache = dir.join("cache");
        let args = || [OsStr::new("dedupe"), "--json".as_ref(), "--cache".as_ref(), cache.as_ref(), dir.as_ref()];
        settle();
        pleach(args()).expect(0);
        let copy = dir.join("copy of the cache");
        write(&copy, &fs::read(&cache).expect("a cache was written"));
        let done = pleach(args()).expect(0).summary();
        assert_eq!((number(&done, "files"), number(&done, "duplicate_files")), (3, 0), "{done}");
    }

    [xfs, btrfs] fn a_filesystem_that_was_set_back_to_an_older_image_is_noticed(fs: &Filesystem) {
        let Some(mut own) = Own::new(fs.kind, "a_filesystem_that_was_set_back", 400, &[], "") else { return };
        let scratch = tempfile::tempdir().expect("a directory can be made");
        let dir = own.join("tree");
        fs::create_dir(&dir).expect("a directory can be made");
        for size in [20_000, 50_000, 3 << 20] {
            for name in ["a", "b", "c"] {
                write(dir.join(format!("{size} {name}")), &bytes(size as u64, size));
            }
        }
        let saved = scratch.path().join("saved");
        let copy = |from: &Path, to: &Path| {
            finish(Command::new("cp").arg("--sparse=always").args([from, to])).expect(0);
        };
        own.edit_image(|image| copy(image, &saved));
        settle();
        let cache = scratch.path().join("cache");
        let run = || {
            pleach([OsStr::new("dedupe"), "--json".as_ref(), "--cache".as_ref(), cache.as_ref(), dir.as_ref()])
                .expect(0)
        };
        let first = run().summary();
        assert!(number(&first, "freed_bytes") > 0, "{first}");
        own.remount();
        let again = run().summary();
        assert!(number(&again, "opened_files") > 0, "some files bear witness after a mount: {again}");
        assert_eq!((number(&again, "read_bytes"), number(&again, "cache_hits")), (0, 9), "{again}");
        own.edit_image(|image| copy(&saved, image));
        let back = run().saying("may have been reset").summary();
        assert_eq!(number(&back, "freed_bytes"), number(&first, "freed_bytes"), "{back}");
        assert_eq!(number(&run().summary(), "opened_files"), 0);
        own.assert_clean();
    }
}

#[test]
fn what_was_reported_as_freed_outlasts_a_power_cut() {
    let test = concat!(module_path!(), "::what_was_reported_as_freed_outlasts_a_power_cut");
    let (Some(mut own), Ok(fs)) = (Own::new(Kind::Xfs, test, 512, &[], ""), Filesystem::open(Kind::Ext4, test)) else {
        return;
    };
    let (dir, cache) = (own.join("tree"), fs.join("cache"));
    fs::create_dir(&dir).expect("a directory can be made");
    for number in 0..16 {
        ["a", "b"].into_iter().for_each(|name| write(dir.join(format!("{name}{number}")), &bytes(number, 2 << 20)));
    }
    let before = own.used();
    settle();
    let args = || [OsStr::new("dedupe"), "--json".as_ref(), "--cache".as_ref(), cache.as_ref(), dir.as_ref()];
    let done = pleach(args()).expect(0).summary();
    finish(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(own.path())).expect(0);
    let freed = before.saturating_sub(own.used());
    let said = number(&done, "freed_bytes");
    assert!(said == 32 << 20 && freed >= said / 100 * 99, "said {said}, the disk gave back {freed}");
    let again = pleach(args()).expect(0).summary();
    assert_eq!((number(&again, "freed_bytes"), number(&again, "read_bytes")), (0, 0), "{again}");
}

#[test]
fn a_failed_sync_is_a_failure_and_leaves_no_cache() {
    let test = concat!(module_path!(), "::a_failed_sync_is_a_failure_and_leaves_no_cache");
    let (Some(own), Ok(fs)) = (Own::new(Kind::Xfs, test, 512, &[], ""), Filesystem::open(Kind::Ext4, test)) else {
        return;
    };
    let (dir, cache) = (own.join("tree"), fs.join("cache"));
    fs::create_dir(&dir).expect("a directory can be made");
    for number in 0..16 {
        ["a", "b"].into_iter().for_each(|name| write(dir.join(format!("{name}{number}")), &bytes(number, 2 << 20)));
    }
    settle();
    let args = [OsStr::new("dedupe"), "--cache".as_ref(), cache.as_ref(), dir.as_ref()];
    // The error that the kernel reports after a failed write.
    let mut run = Command::new("strace");
    run.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=syncfs", "-e", "inject=syncfs:error=EIO:when=1+"]);
    let run = finish(run.arg(env!("CARGO_BIN_EXE_pleach")).args(args).env_remove("PLEACH_REPO"));
    run.expect(1).saying("sync the shared extents");
    assert!(!cache.exists());
}

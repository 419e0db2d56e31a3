//! What `pleach dedupe` keeps for its next run.

use crate::dedupe::{assert_shared, dedupe, run_dedupe};
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;

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
        // Inline on Btrfs, small, and large enough for the second stage; each size has an equal and one that differs.
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
        assert_eq!(inline(&second), inline(&first), "they are told of again");
        assert_eq!(inline(&first) > 0, fs.kind == Kind::Btrfs, "{first}");
        // One that was inline, and no longer is, is looked at.
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
        assert_eq!(whole.len(), 32 + 3 * 64 + 32, "64 bytes a candidate");
        let damages: [(&str, Vec<u8>); 5] = [
            ("version", whole.iter().enumerate().map(|(at, byte)| if at == 16 { 9 } else { *byte }).collect()),
            ("cut short", whole[..100].to_vec()),
            ("cut short", Vec::new()),
            ("damaged", whole.iter().enumerate().map(|(at, byte)| if at == 70 { !byte } else { *byte }).collect()),
            ("no cache of pleach", vec![b'x'; 5000]),
        ];
        for (word, damaged) in damages {
            write(&cache, &damaged);
            let run = run_dedupe(&[], &dir).expect(0).saying(word).saying("made anew");
            assert_eq!(number(&run.summary(), "cache_hits"), 0);
            assert_eq!(number(&dedupe(&dir), "cache_hits"), 3, "after {word}");
        }
        fs::remove_file(&cache).expect("a file can be removed");
        fs::create_dir(&cache).expect("a directory can be made");
        run_dedupe(&[], &dir).expect(0).saying("no regular file").saying("cannot write the cache");
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
}

//! `pleach dedupe`: which files belong to a run, and the summary's counts of the other files.

use crate::dedupe::{dedupe_with, run_dedupe};
use crate::harness::mounted::Mounted;
use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

fn pair(dir: &Path, size: usize) {
    fs::create_dir_all(dir).expect("a directory can be made");
    for name in ["a", "b"] {
        write(dir.join(name), &bytes(1, size));
    }
}

fn skipped(summary: &Value, reason: &str) -> u64 {
    summary["skipped"][reason].as_u64().unwrap_or(0)
}

on_filesystems! {
    [ext4] fn a_filesystem_that_can_share_is_found_below_one_that_cannot(fs: &Filesystem) {
        let (dir, elsewhere) = (fs.dir("tree"), fs.elsewhere());
        pair(&dir, 60_000);
        pair(&dir.join("beside"), 60_000);
        pair(&elsewhere.join("inner"), 60_000);
        let bind = Mounted::bind(elsewhere.path(), &dir.join("deep/er/mounted"));
        settle();
        let only = ["--no-cache", "--one-file-system"];
        let done = dedupe_with(&only, &dir, 3);
        assert_eq!((number(&done, "files"), number(&done, "duplicate_files")), (0, 0), "{done}");
        let run = run_dedupe(&["--no-cache"], &dir).expect(3).saying("ext4 cannot share extents");
        assert_eq!(run.stderr.matches("cannot share extents").count(), 1, "{}", run.stderr);
        let done = run.summary();
        assert_eq!((number(&done, "files"), number(&done, "duplicate_files")), (2, 1), "{done}");
        assert_eq!((number(&done, "errors"), skipped(&done, "unsupported")), (1, 1), "{done}");
        assert!(tools::assert_same_blocks(&elsewhere.join("inner/a"), &elsewhere.join("inner/b")));
        drop(bind);
    }

    [ext4] fn text_and_json_agree_on_paths_that_cannot_be_deduplicated(fs: &Filesystem) {
        let dir = fs.dir("tree");
        pair(&dir, 60_000);
        for (paths, number_of_them) in [(vec![dir.clone()], 1), (vec![dir.join("a"), dir.join("b")], 2)] {
            let args = |json: &'static str| {
                let options = ["dedupe", "--no-cache", json].map(OsStr::new);
                options.into_iter().chain(paths.iter().map(|path| path.as_os_str())).collect::<Vec<_>>()
            };
            let done = pleach(args("--json")).expect(3).summary();
            assert_eq!(
                (skipped(&done, "unsupported"), number(&done, "errors")),
                (number_of_them, number_of_them),
                "{done}"
            );
            let text = pleach(args("-v")).expect(3).stdout;
            let row = format!("skipped {number_of_them} on a filesystem that cannot share extents");
            assert!(text.contains(&row) && !text.contains("nothing left to share"), "{text}");
        }
    }

    [xfs, btrfs] fn files_of_nearly_nothing_but_holes_are_counted_as_skipped(fs: &Filesystem) {
        let dir = fs.dir("tree");
        pair(&dir, 60_000);
        for name in ["sparse", "sparse too"] {
            let file = File::create(dir.join(name)).expect("a file can be made");
            file.set_len(1 << 40).expect("a file can be one hole");
            file.write_all_at(b"data", 1 << 30).expect("a file can be written");
        }
        let done = dedupe_with(&["--no-cache"], &dir, 0);
        assert_eq!((number(&done, "files"), skipped(&done, "sparse")), (2, 2), "{done}");
        let args = [OsStr::new("dedupe"), "--no-cache".as_ref(), dir.as_ref()];
        let text = pleach(args).expect(0).stdout;
        assert!(text.contains("2 nearly nothing but holes"), "{text}");
    }

    [xfs, btrfs] fn ranges_that_were_not_compared_are_not_called_shared(fs: &Filesystem) {
        let dir = fs.dir("tree");
        // Each has a clone, so it shares all its data; the two pairs have 3 MiB in common.
        for (name, seed) in [("one", 1), ("two", 2)] {
            tools::write_in_one_extent(&dir.join(name), &[bytes(seed, 1 << 20), bytes(3, 3 << 20)].concat());
            clone(&dir.join(name), &dir.join(format!("{name} again")));
        }
        let text = |options: &[&str]| {
            settle();
            let mut args: Vec<&OsStr> = vec!["dedupe".as_ref(), "--no-cache".as_ref()];
            args.extend(options.iter().map(OsStr::new));
            args.push(dir.as_ref());
            pleach(args).expect(0).stdout
        };
        let shown = text(&[]);
        assert!(shown.starts_with("no equal files left to share\n") && shown.contains("--ranges always"), "{shown}");
        assert_eq!(dedupe_with(&["--no-cache"], &dir, 0)["ranges"], "all_shared");
        assert!(text(&["--ranges", "never"]).starts_with("no equal files left to share\n"));
        let done = dedupe_with(&["--no-cache", "--ranges", "always"], &dir, 0);
        assert!(number(&done, "freed_bytes") >= 3 << 20 && done["ranges"] == "compared", "{done}");
        assert!(text(&["--ranges", "always"]).starts_with("nothing left to share\n"));
    }
}

/// Two new filesystems put their first files at the same addresses.
#[test]
fn bytes_that_are_held_outside_count_on_each_filesystem() {
    let test = "dedupe_scope::bytes_that_are_held_outside_count_on_each_filesystem";
    let (Some(one), Some(other)) = (Own::new(Kind::Xfs, test, 512, &[], ""), Own::new(Kind::Xfs, test, 512, &[], ""))
    else {
        return;
    };
    for own in [&one, &other] {
        pair(&own.join("tree"), 1 << 20);
        fs::create_dir(own.join("outside")).expect("a directory can be made");
        for name in ["a", "b"] {
            clone(&own.join("tree").join(name), &own.join("outside").join(name));
        }
    }
    let places = |own: &Own| tools::extents(&own.join("tree/b"));
    assert_eq!(places(&one), places(&other), "otherwise this test proves nothing");
    let trees = [&one, &other].map(|own| own.join("tree"));
    let plan = |paths: &[PathBuf], status| {
        let mut args: Vec<&OsStr> = ["dedupe", "--no-cache", "--json", "--dry-run"].map(OsStr::new).to_vec();
        args.extend(paths.iter().map(|path| path.as_os_str()));
        number(&pleach(args).expect(status).summary(), "pinned_bytes")
    };
    assert_eq!(trees.each_ref().map(|tree| plan(std::slice::from_ref(tree), 0)), [1 << 20; 2]);
    assert_eq!(plan(&trees, 3), 2 << 20);
}

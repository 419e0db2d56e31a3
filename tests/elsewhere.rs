//! `pleach snapshot` when extents cannot be shared: without reflinks, and from another filesystem.

use crate::harness::*;
use crate::on_filesystems;
use std::fs;
use std::path::Path;

/// The sum of the bytes of all reasons for copying.
fn reasons(summary: &serde_json::Value) -> u64 {
    summary["reasons"].as_object().expect("reasons is an object").values().filter_map(|bytes| bytes.as_u64()).sum()
}

on_filesystems! {
    [ext4] fn without_reflinks_data_is_copied_and_that_is_said(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        settle();
        let run = pleach(snapshot_named("first", &source, &repo)).expect(0);
        let summary = run.summary();
        assert_eq!(number(&summary, "copied_bytes"), number(&summary, "bytes"), "{summary}");
        assert_eq!(number(&summary, "cloned_bytes"), 0, "{summary}");
        assert_eq!(summary["sharing_percent"].as_f64(), Some(0.0), "{summary}");
        assert_eq!(reasons(&summary), number(&summary, "copied_bytes"), "{summary}");
        run.saying("cop");
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }

    [xfs, btrfs] fn a_source_elsewhere_is_copied_once_and_never_opened_again(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        tree::plain(&source);
        let first = snapshot(&source, &repo);
        assert_eq!(number(&first, "copied_bytes"), number(&first, "bytes"), "{first}");
        assert_eq!(reasons(&first), number(&first, "copied_bytes"), "{first}");

        let calls =
            tools::traced_calls("open,openat,openat2", &snapshot_named("second", &source, &repo), &fs.join("trace"));
        assert!(!calls.is_empty(), "something was traced");
        let files = tools::files(&source);
        // strace shows the path of a descriptor that a call returns.
        let opened = |call: &&String| {
            files.iter().any(|file| call.ends_with(&format!("<{}>", file.display()))) && !call.contains("O_PATH")
        };
        assert_eq!(calls.iter().filter(opened).collect::<Vec<_>>(), [""; 0]);

        let third = snapshot(&source, &repo);
        assert_eq!(number(&third, "unchanged_files"), 5, "{third}");
        assert_eq!((number(&third, "read_bytes"), number(&third, "copied_bytes")), (0, 0), "{third}");
        assert_eq!(third["sharing_percent"].as_f64(), Some(100.0), "{third}");
        let (second, third) = (inside(&repo, "second", &source), inside(&repo, "latest", &source));
        for name in ["a", "b", "c/one", "c/two", "c/d/three"] {
            assert!(tools::assert_same_blocks(&second.join(name), &third.join(name)));
        }
        tools::assert_equal_trees(&source, &third);
    }

    fn every_kind_of_entry_comes_over_from_another_filesystem(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        tree::every_kind(&source);
        snapshot(&source, &repo);
        let copy = inside(&repo, "latest", &source);
        tools::assert_equal_trees(&source, &copy);
        assert_holes(&copy.join("sparse"), 1 << 20);
        assert_holes(&copy.join("hole"), 1 << 16);
        snapshot(&source, &repo);
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }

    [xfs, btrfs] fn a_file_renamed_elsewhere_counts_as_renamed(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        tree::plain(&source);
        snapshot(&source, &repo);
        fs::rename(source.join("c/d/three"), source.join("third")).expect("a file can be renamed");
        let second = snapshot(&source, &repo);
        assert_eq!((number(&second, "renamed_files"), number(&second, "new_files")), (1, 0), "{second}");
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }
}

/// Asserts that a file takes no more than about `most` bytes on disk.
#[track_caller]
fn assert_holes(file: &Path, most: u64) {
    use std::os::unix::fs::MetadataExt;
    let blocks = fs::metadata(file).expect("the file is there").blocks();
    assert!(blocks * 512 <= most, "{} takes {} bytes", file.display(), blocks * 512);
}

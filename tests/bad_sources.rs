//! Sources that disappear while they are read, and restores to a full disk.

use crate::harness::tools::assert_equal_trees;
use crate::harness::*;
use crate::on_filesystems;
use pleach::error::Error;
use pleach::monitor::{Monitor, Recording};
use pleach::snapshot::create::{self, Options};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Once;

/// Removes a tree when the engine asks for the first time whether it should stop.
struct Remover<'a> {
    once: Once,
    path: &'a Path,
    seen: Recording,
}

impl Monitor for Remover<'_> {
    fn problem(&self, error: &Error) {
        self.seen.problem(error);
    }

    fn is_cancelled(&self) -> bool {
        self.once.call_once(|| fs::remove_dir_all(self.path).unwrap());
        false
    }
}

on_filesystems! {
    fn a_source_that_vanishes_midway_is_told_and_what_was_read_is_kept(fs: &Filesystem) {
        let (stays, goes, repo) = (fs.dir("stays"), fs.dir("goes"), fs.join("repo"));
        tree::plain(&stays);
        tree::plain(&goes);
        let monitor = Remover { once: Once::new(), path: &goes, seen: Recording::default() };
        let sources = [goes.clone(), stays.clone()];
        let options = Options { threads: Some(1), ..Options::default() };
        let stats = create::create(&sources, &repo, &options, &monitor).unwrap();
        let problems = monitor.seen.problems.into_inner().unwrap();
        assert_eq!((stats.files, stats.errors), (5, 1), "{problems:?}");
        assert!(problems[0].contains("vanished") && problems[0].contains("/goes"), "{problems:?}");
        assert_equal_trees(&stays, &inside(&repo, "latest", &stays));
        // If the source is named again, it is missing, and nothing is done.
        let args = ["snapshot".as_ref(), goes.as_os_str(), stays.as_ref(), repo.as_ref()];
        pleach(args).expect(1).saying("goes");
        assert_eq!(published(&repo).len(), 1);
    }

    [xfs_small] fn a_full_disk_ends_a_restore_in_words_and_leaves_no_half_of_a_file(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo, target) = (other.dir("source"), other.join("repo"), fs.dir("target"));
        for number in 0..60 {
            write(source.join(format!("large-{number}")), &bytes(number, 1 << 20));
        }
        snapshot(&source, &repo);
        let free = disk_space::free_bytes(fs.path());
        let ballast = File::create(fs.join("ballast")).unwrap();
        rustix::fs::fallocate(&ballast, rustix::fs::FallocateFlags::empty(), 0, free - (40 << 20)).unwrap();
        restored(&repo, &target).expect(1).saying("no space left");
        for file in tools::files(&target) {
            assert_eq!(file.metadata().unwrap().len(), 1 << 20, "{}", file.display());
        }
        drop(ballast);
        disk_space::give_back(&fs.join("ballast"));
        restored(&repo, &target).expect(0);
        assert_equal_trees(&source, &target.join(source.strip_prefix("/").unwrap()));
    }
}

fn restored(repo: &Path, target: &Path) -> Run {
    pleach([OsStr::new("restore"), "--target".as_ref(), target.as_ref(), repo.as_ref(), "latest".as_ref()])
}

//! Sources and directories that are deleted, or replaced by others, while they are read: an incomplete
//! result is never shown as complete.

use crate::harness::*;
use crate::on_filesystems;
use pleach::copy_tree;
use pleach::error::Error;
use pleach::monitor::Monitor;
use pleach::snapshot::create::{self, Options, Stats};
use pleach::snapshot::diff;
use pleach::usage;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Interferes when the engine asks for this many times whether it should stop.
struct Meddler<F> {
    asked: AtomicUsize,
    when: usize,
    meddle: F,
    problems: Mutex<Vec<String>>,
}

impl<F: Fn() + Sync> Meddler<F> {
    fn new(when: usize, meddle: F) -> Self {
        Meddler { asked: AtomicUsize::new(0), when, meddle, problems: Mutex::default() }
    }

    fn problems(self) -> Vec<String> {
        assert!(self.asked.into_inner() > self.when, "it has interfered");
        self.problems.into_inner().unwrap()
    }
}

impl<F: Fn() + Sync> Monitor for Meddler<F> {
    fn problem(&self, error: &Error) {
        self.problems.lock().unwrap().push(error.to_string());
    }

    fn is_cancelled(&self) -> bool {
        if self.asked.fetch_add(1, Ordering::Relaxed) == self.when {
            (self.meddle)();
        }
        false
    }
}

/// Makes a tree of 20 directories with three files each.
fn fill(top: &Path) {
    for number in 0..20 {
        let below = top.join(format!("d{number:02}/e"));
        fs::create_dir_all(&below).unwrap();
        (0..3).for_each(|file| write(below.join(file.to_string()), format!("{number} {file}").as_bytes()));
    }
}

/// Puts an equal tree in the place of this one, and deletes the old one.
fn swap(top: &Path) {
    let (old, new) = (top.with_extension("old"), top.with_extension("new"));
    fill(&new);
    fs::rename(top, &old).unwrap();
    fs::rename(&new, top).unwrap();
    fs::remove_dir_all(old).unwrap();
}

/// Deletes a tree and makes an equal one.
fn make_again(top: &Path) {
    fs::remove_dir_all(top).unwrap();
    fill(top);
}

/// Takes a snapshot of a source while `meddle` runs.
fn take(source: &Path, repo: &Path, meddle: impl Fn() + Sync) -> (pleach::error::Result<Stats>, Vec<String>) {
    let options = Options { threads: Some(1), ..Options::default() };
    let monitor = Meddler::new(12, meddle);
    (create::create(&[source.to_path_buf()], repo, &options, &monitor), monitor.problems())
}

/// Copies a source while `meddle` runs.
fn copied(source: &Path, to: &Path, verify: bool, meddle: impl Fn() + Sync) -> (copy_tree::Stats, Vec<String>) {
    let options = copy_tree::Options { threads: Some(1), verify, ..copy_tree::Options::default() };
    let monitor = Meddler::new(12, meddle);
    (copy_tree::copy(&[source.to_path_buf()], to, &options, &monitor).unwrap(), monitor.problems())
}

#[track_caller]
fn expect_replaced(errors: u64, problems: &[String], path: &Path) {
    let is_named = |problem: &String| problem.contains("replaced while it was read") && problem.contains(&shown(path));
    assert!(errors >= 1 && problems.iter().any(is_named), "{errors}: {problems:?}");
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// A source with the tree `app`.
fn with_app(fs: &Filesystem) -> (PathBuf, PathBuf) {
    let source = fs.dir("source");
    write(source.join("beside"), b"beside");
    let app = source.join("app");
    fill(&app);
    (source, app)
}

on_filesystems! {
    fn a_source_that_is_replaced_midway_gives_an_incomplete_snapshot(fs: &Filesystem) {
        for (number, meddle) in [swap as fn(&Path), make_again].into_iter().enumerate() {
            let (source, repo) = (fs.join(format!("source-{number}")), fs.join("repo"));
            fill(&source);
            let (stats, problems) = take(&source, &repo, || meddle(&source));
            let stats = stats.unwrap();
            assert!(stats.files < 60, "the run was disturbed: {stats:?}");
            expect_replaced(stats.errors, &problems, &source);
        }
    }

    fn a_directory_that_is_replaced_midway_gives_an_incomplete_snapshot(fs: &Filesystem) {
        let (source, app) = with_app(fs);
        for meddle in [swap as fn(&Path), make_again] {
            let (stats, problems) = take(&source, &fs.join("repo"), || meddle(&app));
            let stats = stats.unwrap();
            assert!(stats.files < 61, "the run was disturbed: {stats:?}");
            expect_replaced(stats.errors, &problems, &app);
        }
    }

    fn a_directory_that_is_deleted_or_moved_midway_is_no_problem(fs: &Filesystem) {
        let (source, app) = with_app(fs);
        let (stats, problems) = take(&source, &fs.join("repo"), || fs::remove_dir_all(&app).unwrap());
        assert_eq!(stats.unwrap().errors, 0, "{problems:?}");
        fill(&app);
        let moved = || {
            fs::rename(&app, fs.join("moved")).unwrap();
            fs::remove_dir_all(fs.join("moved")).unwrap();
        };
        let (stats, problems) = take(&source, &fs.join("repo"), moved);
        assert_eq!(stats.unwrap().errors, 0, "{problems:?}");
        fill(&app);
        let (stats, problems) = copied(&source, &fs.join("copy"), false, || fs::remove_dir_all(&app).unwrap());
        assert_eq!(stats.errors, 0, "{problems:?}");
    }

    fn a_copy_of_a_source_that_vanishes_or_is_replaced_midway_is_told(fs: &Filesystem) {
        let source = fs.join("source");
        fill(&source);
        let (stats, problems) = copied(&source, &fs.join("one"), false, || swap(&source));
        assert!(stats.files < 60, "the run was disturbed: {stats:?}");
        expect_replaced(stats.errors, &problems, &source);
        let (stats, problems) = copied(&source, &fs.join("two"), true, || fs::remove_dir_all(&source).unwrap());
        assert!(stats.files < 60 && stats.errors >= 1, "{stats:?}");
        assert!(problems[0].contains("vanished") && problems[0].contains(&shown(&source)), "{problems:?}");
        let (source, app) = with_app(fs);
        let (stats, problems) = copied(&source, &fs.join("three"), false, || swap(&app));
        expect_replaced(stats.errors, &problems, &app);
    }

    [xfs, btrfs] fn a_source_that_vanishes_before_it_is_read_gives_no_snapshot_and_no_copy(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("file"), b"content");
        let monitor = Meddler::new(0, || fs::remove_dir_all(&source).unwrap());
        let error = create::create(std::slice::from_ref(&source), &repo, &Options::default(), &monitor).unwrap_err();
        assert!(error.to_string().contains(&shown(&source)), "{error}");
        assert!(published(&repo).is_empty());
        let file = fs.join("file");
        write(&file, b"content");
        let monitor = Meddler::new(0, || fs::remove_file(&file).unwrap());
        let error = create::create(std::slice::from_ref(&file), &repo, &Options::default(), &monitor).unwrap_err();
        assert!(error.to_string().contains(&shown(&file)), "{error}");
        assert!(published(&repo).is_empty());
        let source = fs.dir("source");
        write(source.join("file"), b"content");
        let monitor = Meddler::new(0, || fs::remove_dir_all(&source).unwrap());
        let options = copy_tree::Options { threads: Some(1), ..copy_tree::Options::default() };
        let error = copy_tree::copy(std::slice::from_ref(&source), &fs.join("copy"), &options, &monitor).unwrap_err();
        assert!(error.to_string().contains(&shown(&source)), "{error}");
    }

    [xfs, btrfs] fn a_comparison_with_a_live_tree_that_is_replaced_midway_is_told(fs: &Filesystem) {
        let source = fs.join("source");
        fill(&source);
        let repo = fs.join("repo");
        snapshot(&source, &repo);
        let monitor = Meddler::new(12, || swap(&source));
        let options = diff::Options { threads: Some(1), ..diff::Options::default() };
        let stats = diff::diff(&repo, ("latest", diff::LIVE), &options, &monitor, &mut |_| Ok(())).unwrap();
        expect_replaced(stats.errors, &monitor.problems(), &source);
    }

    [xfs, btrfs] fn paths_that_are_replaced_midway_are_told_by_dedupe_and_du(fs: &Filesystem) {
        let source = fs.join("source");
        fill(&source);
        let monitor = Meddler::new(12, || swap(&source));
        let options = pleach::dedupe::Options { threads: Some(1), ..pleach::dedupe::Options::default() };
        let stats = pleach::dedupe::dedupe(std::slice::from_ref(&source), &options, &monitor).unwrap();
        expect_replaced(stats.errors, &monitor.problems(), &source);
        let monitor = Meddler::new(12, || swap(&source));
        let options = usage::Options { threads: Some(1), ..usage::Options::default() };
        let stats = usage::measure(std::slice::from_ref(&source), &options, &monitor).unwrap();
        expect_replaced(stats.errors, &monitor.problems(), &source);
    }

    [btrfs] fn a_subvolume_that_is_deleted_and_made_again_midway_is_told(fs: &Filesystem) {
        let run = |args: &[&str], paths: &[&Path]| {
            finish(Command::new("btrfs").args(["-q", "subvolume"]).args(args).args(paths)).expect(0);
        };
        let (original, source, repo) = (fs.join("original"), fs.join("rotating"), fs.join("repo"));
        run(&["create"], &[&original]);
        fill(&original);
        run(&["snapshot"], &[&original, &source]);
        let rotate = || {
            run(&["delete"], &[&source]);
            run(&["snapshot"], &[&original, &source]);
        };
        let (stats, problems) = take(&source, &repo, rotate);
        expect_replaced(stats.unwrap().errors, &problems, &source);
        let (stats, problems) = copied(&source, &fs.join("copy"), false, rotate);
        expect_replaced(stats.errors, &problems, &source);
        // A subvolume below a source is a directory like others.
        let (above, nested) = (fs.dir("above"), fs.join("above/nested"));
        write(above.join("beside"), b"beside");
        run(&["snapshot"], &[&original, &nested]);
        let (stats, problems) = take(&above, &repo, || run(&["delete"], &[&nested]));
        assert_eq!(stats.unwrap().errors, 0, "{problems:?}");
        run(&["snapshot"], &[&original, &nested]);
        let rotate = || {
            run(&["delete"], &[&nested]);
            run(&["snapshot"], &[&original, &nested]);
        };
        let (stats, problems) = take(&above, &repo, rotate);
        expect_replaced(stats.unwrap().errors, &problems, &nested);
    }

    [ext4] fn a_file_that_becomes_a_link_while_it_is_copied_is_told_in_words(fs: &Filesystem) {
        let source = fs.dir("source");
        let file = source.join("large");
        write(&file, &bytes(1, 2 << 20));
        write(source.join("small"), b"small");
        let monitor = Meddler::new(2, || {
            fs::remove_file(&file).unwrap();
            symlink("small", &file).unwrap();
        });
        let options = copy_tree::Options { threads: Some(1), ..copy_tree::Options::default() };
        copy_tree::copy(std::slice::from_ref(&source), &fs.join("copy"), &options, &monitor).unwrap();
        let problems = monitor.problems();
        assert!(problems[0].contains("became something else"), "{problems:?}");
    }
}

#[test]
fn a_list_of_patterns_that_is_a_named_pipe_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (source, pipe, repo) = (dir.path().join("source"), dir.path().join("pipe"), dir.path().join("repo"));
    fs::create_dir(&source).unwrap();
    finish(Command::new("mkfifo").arg(&pipe)).expect(0);
    let args = ["snapshot".as_ref(), "--exclude-from".as_ref(), pipe.as_os_str(), source.as_ref(), repo.as_ref()];
    pleach(args).expect(1).saying("named pipe");
}

//! `pleach copy` killed and interrupted: nothing half under its own name, and the next run goes on.

use super::{assert_nothing_unfinished, copy, run};
use crate::harness::*;
use crate::on_filesystems;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Starts a copy by an engine.
fn start(engine: &str, source: &Path, copied: &Path) -> Child {
    let mut command = command(["copy", "--engine", engine, "-T"]);
    command.args([source, copied]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pleach can be started")
}

/// A tree that keeps a run busy long enough to be disturbed: small files, large ones, hard links.
fn busy_tree(dir: &Path) {
    for number in 0..10 {
        let inner = dir.join(format!("dir-{number}"));
        fs::create_dir(&inner).unwrap();
        tree::crowded(&inner, 200);
        write(inner.join("large"), &bytes(number, 6 << 20));
        fs::hard_link(inner.join("large"), inner.join("linked")).unwrap();
    }
}

/// Asserts that what has a name is what has that name in the source.
#[track_caller]
fn assert_whole(source: &Path, copied: &Path) {
    if !copied.exists() {
        return;
    }
    for file in tools::files(copied) {
        if file.to_string_lossy().contains("/.pleach-copy.") {
            continue;
        }
        let original = source.join(file.strip_prefix(copied).unwrap());
        assert_eq!(fs::read(&file).unwrap(), fs::read(&original).unwrap(), "{}", file.display());
        let meta = |path: &Path| {
            let meta = path.metadata().unwrap();
            (meta.permissions(), meta.modified().unwrap())
        };
        assert_eq!(meta(&file), meta(&original), "{}", file.display());
    }
}

on_filesystems! {
    fn of_a_file_that_is_not_finished_a_killed_run_leaves_nothing(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.dir("source");
        tree::crowded(&source, 300);
        for number in 0..6 {
            write(source.join(format!("large-{number}")), &bytes(number, 8 << 20));
        }
        for (engine, moment) in ["buffered", "uring", "sendfile"].into_iter().flat_map(|engine| (1..5).map(move |n| (engine, n))) {
            let copied = fs.join(format!("{engine} {moment}"));
            let mut child = start(engine, &source, &copied);
            thread::sleep(Duration::from_millis(moment * 30));
            child.kill().unwrap();
            child.wait().unwrap();
            assert_whole(&source, &copied);
            if copied.exists() {
                assert_nothing_unfinished(&copied);
            }
        }
    }

    fn killed_at_random_it_leaves_no_half_file_and_the_next_run_goes_on(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.dir("source");
        busy_tree(&source);
        for engine in ["auto", "buffered", "uring"] {
            let begin = Instant::now();
            let copied = fs.join(engine);
            start(engine, &source, &copied).wait_with_output().unwrap();
            let whole = begin.elapsed();
            fs::remove_dir_all(&copied).unwrap();
            let mut was_there = 0;
            for moment in 1..8_u32 {
                let mut child = start(engine, &source, &copied);
                let jitter = Duration::from_nanos(u64::from(child.id()) % 1000 * whole.as_nanos() as u64 / 10_000);
                thread::sleep(whole * moment / 16 + jitter);
                child.kill().unwrap();
                child.wait().unwrap();
                assert_whole(&source, &copied);
                let files = if copied.exists() { tools::files(&copied).len() } else { 0 };
                assert!(files + 64 >= was_there, "what was done stays: {files} after {was_there}");
                was_there = files;
            }
            let args = ["--engine", engine, "-T"].map(std::ffi::OsString::from).into_iter();
            let args: Vec<_> = args.chain([source.clone().into(), copied.clone().into()]).collect();
            let summary = run(&args).expect(0).summary();
            assert!(number(&summary, "unchanged_files") > 0, "{summary}");
            tools::assert_equal_trees(&source, &copied);
            assert_nothing_unfinished(&copied);
            fs::remove_dir_all(&copied).unwrap();
        }
    }

    [xfs] fn interrupted_it_says_so_and_leaves_nothing_unfinished(fs: &Filesystem) {
        let source = fs.dir("source");
        busy_tree(&source);
        for ask_to_stop in [Signal::INT, Signal::TERM] {
            let copied = fs.join(format!("copied {ask_to_stop:?}"));
            let child = start("buffered", &source, &copied);
            let deadline = Instant::now() + Duration::from_secs(10);
            while !copied.exists() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
            kill_process(Pid::from_child(&child), ask_to_stop).unwrap();
            let ended = Run::new(child.wait_with_output().unwrap(), "pleach copy".into());
            ended.expect(130).saying("interrupted").saying("run again to go on");
            assert_whole(&source, &copied);
            assert_nothing_unfinished(&copied);
            run([std::ffi::OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0);
            tools::assert_equal_trees(&source, &copied);
        }
    }

    [xfs] fn what_a_dead_run_left_is_cleared_and_what_a_living_one_has_is_not(fs: &Filesystem) {
        let (source, into) = (fs.dir("source"), fs.dir("into"));
        fs::create_dir(source.join("sub")).unwrap();
        write(source.join("sub/file"), b"x");
        copy(&source, &into);
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let (left, living) = (format!(".pleach-copy.{:x}.5", dead.id()), format!(".pleach-copy.{:x}.5", std::process::id()));
        for dir in [into.clone(), into.join("source"), into.join("source/sub")] {
            write(dir.join(&left), b"half");
            write(dir.join(&living), b"half");
        }
        copy(&source, &into);
        assert_eq!(names(&into), [living.as_str(), "source"]);
        assert_eq!(names(&into.join("source")), [living.as_str(), "sub"]);
        assert_eq!(names(&into.join("source/sub")), [living.as_str(), "file"]);
    }
}

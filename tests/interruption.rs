//! `pleach snapshot`, killed, interrupted, or started twice.

use crate::harness::*;
use crate::on_filesystems;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Starts a snapshot that stays running for a while.
fn start(name: &str, source: &Path, repo: &Path) -> Child {
    running::begin(&mut command(snapshot_named(name, source, repo)))
}

/// Waits until a run holds the repository's lock.
#[track_caller]
fn wait_until_locked(repo: &Path) {
    running::await_that("a run takes the lock", || {
        let lock = File::open(repo.join(".pleach/lock"));
        lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err())
    });
}

/// Runs a command that writes more than a pipe holds, and interrupts it while it waits for a reader.
fn interrupted_while_it_writes(mut command: std::process::Command) -> Run {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pleach can be started");
    let mut stdout = child.stdout.take().expect("stdout is a pipe");
    let is_full = || rustix::io::ioctl_fionread(&stdout).expect("a pipe reports its content") >= 48 << 10;
    let waited = (0..6000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        is_full()
    });
    assert!(waited, "the plan is being written");
    running::signal(&child, Signal::INT);
    // The signal is delivered before the writer continues.
    thread::sleep(Duration::from_millis(50));
    let mut text = Vec::new();
    stdout.read_to_end(&mut text).expect("the plan can be read");
    let mut output = child.wait_with_output().expect("a child can be waited for");
    output.stdout = text;
    Run::new(output, "an interrupted dry run".into())
}

/// A tree that keeps a run busy long enough to be disturbed.
fn busy_tree(dir: &Path) {
    for number in 0..20 {
        let inner = dir.join(format!("dir-{number}"));
        fs::create_dir(&inner).expect("a directory can be made");
        tree::crowded(&inner, 200);
    }
}

on_filesystems! {
    fn killed_at_ten_moments_it_loses_nothing_and_blocks_no_later_run(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        busy_tree(&source);
        let begin = Instant::now();
        snapshot(&source, &repo);
        let whole = begin.elapsed();
        let mut complete = 1;
        for moment in 0..10_u32 {
            let name = format!("killed-{moment}");
            let mut child = start(&name, &source, &repo);
            // Spread over the run, at a point that differs between test runs.
            let jitter = Duration::from_nanos(u64::from(child.id()) % 1000 * whole.as_nanos() as u64 / 10_000);
            thread::sleep(whole * moment / 10 + jitter);
            child.kill().expect("a child can be killed");
            let status = child.wait().expect("a child can be waited for");
            let exists = repo.join(&name).exists();
            assert!(exists || !status.success(), "a run that succeeded published its snapshot");
            complete += usize::from(exists);
            assert_eq!(published(&repo).len(), complete);
            assert_eq!(listed(&repo).len(), complete, "list shows complete snapshots only");
        }
        for name in published(&repo) {
            tools::assert_equal_trees(&source, &inside(&repo, &name, &source));
        }
        snapshot(&source, &repo);
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
        assert_no_leftovers(&repo);
    }

    [xfs] fn a_first_run_that_was_killed_blocks_nothing(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        busy_tree(&source);
        let mut child = start("killed", &source, &repo);
        wait_until_locked(&repo);
        thread::sleep(Duration::from_millis(50));
        child.kill().expect("a child can be killed");
        child.wait().expect("a child can be waited for");
        snapshot(&source, &repo);
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
        assert_no_leftovers(&repo);
    }

    [xfs] fn interrupted_it_says_so_and_publishes_nothing(fs: &Filesystem) {
        for ask_to_stop in [Signal::INT, Signal::TERM] {
            let (source, repo) = (fs.dir(format!("source {ask_to_stop:?}")), fs.join(format!("repo {ask_to_stop:?}")));
            busy_tree(&source);
            let child = start("interrupted", &source, &repo);
            wait_until_locked(&repo);
            running::signal(&child, ask_to_stop);
            running::end(child).expect(130).saying("interrupted");
            assert_eq!(published(&repo), [""; 0]);
            snapshot(&source, &repo);
            tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
            assert_no_leftovers(&repo);
        }
    }

    [xfs] fn an_interrupted_dry_run_says_that_nothing_was_changed(fs: &Filesystem) {
        let (source, target) = (fs.dir("source"), fs.dir("target"));
        let long = "x".repeat(200);
        for number in 0..2400 {
            let dir = source.join(format!("dir-{}", number / 40));
            fs::create_dir_all(&dir).expect("a directory can be made");
            write(
                dir.join(format!("{number} {long}")),
                b"content that is equal in all of these files, and longer than a little: 0123456789",
            );
        }
        let other = fs.join("other");
        // The first two commands walk on one thread, which is interrupted at its thirtieth call of this kind.
        let cases: [(Option<&str>, &[&str], &[&Path]); 3] = [
            (Some("getdents64"), &["snapshot", "-j1"], &[&source, &other]),
            (Some("getdents64"), &["copy", "-j1"], &[&source, &target]),
            (None, &["dedupe", "--no-cache"], &[&source]),
        ];
        let before = tools::inventory(fs.path());
        for (call, words, paths) in cases {
            for json in [&["--json"][..], &[]] {
                let args = words.iter().chain(["--dry-run"].iter()).chain(json).map(OsStr::new);
                let args = args.chain(paths.iter().map(|path| path.as_os_str()));
                let run = match call {
                    Some(call) => tools::interrupted_at(call, 30, args),
                    None => interrupted_while_it_writes(command(args)),
                };
                let run = run.expect(130).saying("interrupted (nothing was changed)");
                assert!(!run.stderr.contains("kept") && !run.stderr.contains("again"), "{words:?}: {}", run.stderr);
                if !json.is_empty() {
                    assert_eq!(run.lines::<json_lines::Problem>()[0].code, "interrupted", "{words:?}");
                }
            }
        }
        assert_same_lines(&tools::inventory(fs.path()), &before);
    }

    [xfs] fn a_second_run_while_one_runs_is_turned_away(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        busy_tree(&source);
        let first = start("first", &source, &repo);
        wait_until_locked(&repo);
        running::signal(&first, Signal::STOP);
        let second = pleach(snapshot_named("second", &source, &repo));
        running::signal(&first, Signal::CONT);
        second.expect(11).saying("lock");
        running::end(first).expect(0);
        assert_eq!(published(&repo), ["first"]);
        assert_no_leftovers(&repo);
    }
}

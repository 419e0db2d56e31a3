//! `pleach snapshot` killed, interrupted, or started twice.

use crate::harness::*;
use crate::on_filesystems;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Starts a snapshot that stays running for a while.
fn start(name: &str, source: &Path, repo: &Path) -> Child {
    let mut command = command(snapshot_named(name, source, repo));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pleach can be started")
}

/// Waits until a run holds the repository's lock.
fn wait_until_locked(repo: &Path) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        if let Ok(lock) = File::open(repo.join(".pleach/lock"))
            && flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err()
        {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("no run took the lock of {}", repo.display());
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("a child can be signalled");
}

fn end(child: Child) -> Run {
    let line = format!("process {}", child.id());
    Run::new(child.wait_with_output().expect("a child can be waited for"), line)
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
            // Spread over the run, at a place that differs from one test run to the next.
            let jitter = Duration::from_nanos(u64::from(child.id()) % 1000 * whole.as_nanos() as u64 / 10_000);
            thread::sleep(whole * moment / 10 + jitter);
            child.kill().expect("a child can be killed");
            let status = child.wait().expect("a child can be waited for");
            let exists = repo.join(&name).exists();
            assert!(exists || !status.success(), "a run that succeeded published its snapshot");
            complete += usize::from(exists);
            assert_eq!(published(&repo).len(), complete);
            assert_eq!(listed(&repo).len(), complete, "list shows what is complete, and only that");
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
            signal(&child, ask_to_stop);
            end(child).expect(130).saying("interrupted");
            assert_eq!(published(&repo), [""; 0]);
            snapshot(&source, &repo);
            tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
            assert_no_leftovers(&repo);
        }
    }

    [xfs] fn a_second_run_while_one_runs_is_turned_away(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        busy_tree(&source);
        let first = start("first", &source, &repo);
        wait_until_locked(&repo);
        signal(&first, Signal::STOP);
        let second = pleach(snapshot_named("second", &source, &repo));
        signal(&first, Signal::CONT);
        second.expect(11).saying("lock");
        end(first).expect(0);
        assert_eq!(published(&repo), ["first"]);
        assert_no_leftovers(&repo);
    }
}

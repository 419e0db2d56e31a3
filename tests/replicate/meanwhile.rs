//! Runs beside each other, and signals: a snapshot is deleted while others are sent, several runs make one repository,
//! and a receiver that waits is asked to stop.

use super::{assert_replica, repository, sums};
use crate::harness::sshd::Sshd;
use crate::harness::*;
use crate::on_filesystems;
use rustix::process::Signal;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Child;

/// Replicates to a host, and runs `meanwhile` when the sender knows its snapshots and has sent none.
fn replicate_while(sshd: &Sshd, repo: &Path, to: &Path, meanwhile: impl FnOnce()) -> Run {
    sshd.replace_pleach(&sshd.waiting());
    let run = running::begin(&mut sshd.replicate_command(repo, to));
    running::await_that("the receiver starts", || sshd.file("started").exists());
    meanwhile();
    fs::write(sshd.file("go"), "").unwrap();
    running::end(run)
}

fn remove(repo: &Path, name: &str) {
    pleach([OsStr::new("remove"), repo.as_ref(), name.as_ref()]).expect(0);
}

on_filesystems! {
    [xfs, btrfs] fn a_snapshot_that_is_deleted_meanwhile_is_not_sent(fs: &Filesystem) {
        let (repo, to, sshd) = (repository(fs), fs.join("to"), Sshd::start(fs.join("host")));
        let run = replicate_while(&sshd, &repo, &to, || remove(&repo, "two")).expect(0);
        assert!(run.stdout.contains("\"code\":\"snapshot-deleted\""), "{run:?}");
        assert_eq!(sums(&run).snapshots, 2);
        assert_replica(&repo, &to);
    }

    [xfs, btrfs] fn a_base_that_is_deleted_meanwhile_is_replaced_by_another_one(fs: &Filesystem) {
        let (repo, to, sshd) = (repository(fs), fs.join("to"), Sshd::start(fs.join("host")));
        pleach([OsStr::new("replicate"), repo.as_ref(), to.as_ref(), "one".as_ref(), "two".as_ref()]).expect(0);
        let run = replicate_while(&sshd, &repo, &to, || remove(&repo, "two")).expect(0);
        assert!(run.stdout.contains("\"name\":\"three\",\"base\":\"one\""), "{run:?}");
        remove(&to, "two");
        assert_replica(&repo, &to);
    }

    fn first_runs_at_once_make_one_repository(fs: &Filesystem) {
        let source = fs.dir("source");
        write(source.join("file"), &bytes(1, 5000));
        for round in 0..10 {
            let repo = fs.join(format!("repo-{round}"));
            let run = |number: i32| {
                let name = format!("run-{number}");
                running::begin(&mut command(snapshot_named(&name, &source, &repo)))
            };
            let runs: Vec<Child> = (0..6).map(run).collect();
            let ends: Vec<Run> = runs.into_iter().map(running::end).collect();
            let locked = ends.iter().filter(|run| run.status == 11).count();
            let done = ends.iter().filter(|run| run.status == 0).count();
            assert_eq!((done > 0, done + locked), (true, 6), "{ends:?}");
            assert_eq!(listed(&repo).len(), done);
        }
    }

    [xfs] fn a_receiver_that_waits_for_the_stream_ends_when_it_must(fs: &Filesystem) {
        for (name, signal) in [("int", Signal::INT), ("term", Signal::TERM)] {
            let to = fs.join(name);
            let mut run = running::begin(&mut command([OsStr::new("receive"), to.as_ref()]));
            let input = run.stdin.take();
            running::await_that("it begins", || to.join(".pleach/format").exists());
            running::signal(&run, signal);
            running::end(run).expect(130).saying("interrupted");
            drop(input);
        }
    }

    [xfs] fn an_empty_repository_has_nothing_to_send(fs: &Filesystem) {
        let (repo, to) = (fs.join("repo"), fs.join("to"));
        pleach([OsStr::new("receive"), "--init".as_ref(), repo.as_ref()]).expect(0);
        let run = pleach([OsStr::new("replicate"), repo.as_ref(), to.as_ref()]).expect(0);
        assert!(run.stdout.contains("there are no snapshots yet"), "{run:?}");
    }
}

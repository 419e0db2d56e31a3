//! `pleach` killed at random moments of the commands that change or read a repository. Whatever the moment, the
//! repository lists its snapshots, each of them is whole, and the next command continues.
//!
//! The number and the choice of moments can be set: see docs/testing.md.

use crate::harness::random::{Random, seed};
use crate::harness::*;
use crate::on_filesystems;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// A command that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Job {
    Snapshot,
    Prune,
    Remove,
    Verify,
    Adopt,
}

/// The order of the commands, in turns. Snapshots come often enough that there is something to remove.
const TURNS: [Job; 8] =
    [Job::Snapshot, Job::Prune, Job::Adopt, Job::Snapshot, Job::Remove, Job::Snapshot, Job::Verify, Job::Snapshot];

/// How many snapshots a prune keeps.
const KEPT: usize = 3;

/// A repository, and its source. One file changes before each snapshot.
struct Place {
    source: PathBuf,
    repo: PathBuf,
    /// The number of snapshots begun so far.
    begun: usize,
    /// A directory for backups that are adopted.
    old: PathBuf,
}

impl Place {
    fn new(fs: &Filesystem) -> Place {
        let place = Place { source: fs.dir("source"), repo: fs.join("repo"), begun: 0, old: fs.dir("old") };
        for number in 0..5 {
            let inner = place.source.join(format!("dir-{number}"));
            fs::create_dir(&inner).unwrap();
            tree::crowded(&inner, 150);
        }
        place
    }

    /// The content of the changing file in a snapshot.
    fn mark(name: &str) -> Vec<u8> {
        bytes(name.bytes().map(u64::from).sum(), 9000)
    }

    /// The command of a job, on the snapshots listed before.
    fn command(&mut self, job: Job, before: &[String]) -> std::process::Command {
        let repo = self.repo.as_os_str();
        match job {
            Job::Snapshot => {
                self.begun += 1;
                let name = format!("s{:03}", self.begun);
                write(self.source.join("mark"), &Place::mark(&name));
                settle();
                command(snapshot_named(&name, &self.source, &self.repo))
            }
            Job::Prune => command([OsStr::new("prune"), format!("--keep-last={KEPT}").as_ref(), repo]),
            Job::Remove => command([OsStr::new("remove"), repo, before[0].as_ref()]),
            Job::Adopt => {
                self.begun += 1;
                let name = format!("2001-01-01T00{:02}{:02}Z", self.begun / 60, self.begun % 60);
                let backup = self.old.join(&name);
                finish(std::process::Command::new("cp").args(["-a", "--reflink=auto"]).args([&self.source, &backup]))
                    .expect(0);
                write(backup.join("mark"), &Place::mark(&name));
                settle();
                let adopt = ["adopt", "--source"].map(OsStr::new);
                command(adopt.into_iter().chain([self.source.as_os_str(), backup.as_os_str(), repo]))
            }
            Job::Verify => command([OsStr::new("verify"), repo]),
        }
    }

    /// Checks what a killed job left.
    fn check(&self, job: Job, before: &[String]) {
        let after = listed(&self.repo);
        let mut sorted = after.clone();
        sorted.sort();
        assert_eq!(sorted, published(&self.repo), "{job:?} of {before:?}");
        let stays = match job {
            Job::Snapshot | Job::Verify | Job::Adopt => before,
            Job::Prune => &before[before.len().saturating_sub(KEPT)..],
            Job::Remove => &before[1..],
        };
        assert!(stays.iter().all(|name| after.contains(name)), "{job:?} of {before:?} left {after:?}");
        for name in &after {
            let is_new = matches!(job, Job::Snapshot | Job::Adopt);
            assert!(before.contains(name) || is_new, "{job:?} of {before:?} left {after:?}");
            let mark = fs::read(inside(&self.repo, name, &self.source).join("mark")).unwrap();
            assert!(mark == Place::mark(name), "{name} is another snapshot after {job:?}");
        }
        pleach([OsStr::new("verify"), self.repo.as_os_str()]).expect(0);
    }
}

on_filesystems! {
    fn killed_at_random_moments_the_repository_lists_verifies_and_continues(fs: &Filesystem) {
        let kills = env::var("PLEACH_TEST_KILLS").map_or(8, |kills| kills.parse().expect("a number of kills"));
        let seed = seed();
        let mut random = Random(seed);
        let mut place = Place::new(fs);
        let mut times: BTreeMap<Job, Duration> = BTreeMap::new();
        // Each command runs whole once, for its time.
        let first = [
            Job::Adopt,
            Job::Snapshot,
            Job::Snapshot,
            Job::Snapshot,
            Job::Snapshot,
            Job::Verify,
            Job::Prune,
            Job::Remove,
        ];
        for job in first {
            let before = if job == Job::Remove { listed(&place.repo) } else { Vec::new() };
            let mut command = place.command(job, &before);
            let begin = Instant::now();
            finish(&mut command).expect(0);
            times.insert(job, begin.elapsed());
        }
        let mut killed = 0;
        for job in TURNS.into_iter().cycle().take(kills) {
            let before = listed(&place.repo);
            let mut command = place.command(job, &before);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            thread::sleep(times[&job].mul_f64(random.fraction()));
            child.kill().unwrap();
            killed += usize::from(!child.wait().unwrap().success());
            place.check(job, &before);
            // A snapshot that was killed is made again, so that there is something to remove.
            if job == Job::Snapshot {
                finish(&mut place.command(job, &before)).expect(0);
            }
        }
        counted(killed, "kills");
        assert!(killed > 0, "all {kills} commands ended before they were killed (PLEACH_TEST_SEED={seed})");
        finish(&mut place.command(Job::Snapshot, &[])).expect(0);
        tools::assert_equal_trees(&place.source, &inside(&place.repo, "latest", &place.source));
        assert_no_leftovers(&place.repo);
    }
}

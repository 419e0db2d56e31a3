//! `pleach replicate` as a command: its arguments, its plan, its output, and snapshots that cannot be sent.

use super::{assert_replica, replicate, repository, sums, take};
use crate::harness::json_lines::Line;
use crate::harness::*;
use crate::on_filesystems;
use serde::Deserialize;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, Deserialize, PartialEq)]
struct Sent {
    name: String,
    base: Option<String>,
    sent_bytes: Option<u64>,
}

impl Line for Sent {
    const TYPE: &'static str = "snapshot";
}

fn with(options: &[&str], words: &[&Path]) -> Run {
    let options = options.iter().map(OsStr::new);
    let words = words.iter().map(|word| word.as_os_str());
    pleach([OsStr::new("replicate")].into_iter().chain(options).chain(words))
}

fn id(id: &str) -> &Path {
    Path::new(id)
}

/// Names and bases of the snapshots that were sent or would be.
fn sent(run: &Run) -> Vec<(String, Option<String>)> {
    run.lines::<Sent>().into_iter().map(|sent| (sent.name, sent.base)).collect()
}

/// The file of a snapshot in a repository.
fn file(repo: &Path, snapshot: &str, source: &Path, name: &str) -> PathBuf {
    inside(repo, snapshot, source).join(name)
}

/// Changes a file of a snapshot behind the back of its manifest.
fn rot(path: &Path) {
    let status = fs::metadata(path).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(b"rotten", 100).unwrap();
    file.sync_all().unwrap();
    tree::set_mtime(path, status.mtime(), status.mtime_nsec());
}

/// Four snapshots of files that change each time.
fn four(fs: &Filesystem) -> (PathBuf, PathBuf) {
    let (source, repo) = (fs.dir("source"), fs.join("repo"));
    for (number, name) in ["one", "two", "three", "four"].into_iter().enumerate() {
        write(source.join("a"), &bytes(number as u64, 300_000));
        write(source.join("b"), &bytes(number as u64 + 10, 300_000));
        take(name, &source, &repo);
    }
    (source, repo)
}

on_filesystems! {
    [xfs] fn a_dry_run_lists_what_a_run_sends_and_changes_nothing(fs: &Filesystem) {
        let (repo, to) = (repository(fs), fs.join("to"));
        let name = |name: &str, base: Option<&str>| (name.to_string(), base.map(String::from));
        let all = [name("one", None), name("two", Some("one")), name("three", Some("two"))];
        let plan = with(&["--dry-run", "--json"], &[&repo, &to]).expect(0);
        assert_eq!(sent(&plan), all);
        assert_eq!(plan.summary()["dry_run"], true);
        assert!(plan.lines::<Sent>().iter().all(|sent| sent.sent_bytes.is_none()));
        assert!(!to.exists());
        assert_eq!(sent(&with(&["--json"], &[&repo, &to, id("one")]).expect(0)), all[..1]);
        let shown = with(&["--dry-run", "--last=1"], &[&repo, &to]).expect(0).stdout;
        assert!(shown.starts_with("snapshot  sent as\nthree     a difference from one\n"), "{shown}");
        assert!(shown.contains(&format!("would send the snapshot three to {}\n", to.display())), "{shown}");
        assert_eq!(listed(&to), ["one"]);
        let run = with(&["--json"], &[&repo, &to]).expect(0);
        assert_eq!(sent(&run), all[1..]);
        let sums: u64 = run.lines::<Sent>().iter().map(|sent| sent.sent_bytes.unwrap()).sum();
        assert_eq!(sums, number(&run.summary(), "sent_bytes"));
        let again = with(&["--dry-run"], &[&repo, &to]).expect(0).stdout;
        assert!(again.starts_with(&format!("nothing to send to {}: it has all of them\n", to.display())), "{again}");
        assert_eq!(with(&["-q"], &[&repo, &to]).expect(0).stdout, "");
    }

    [xfs] fn only_the_named_or_the_newest_snapshots_are_sent(fs: &Filesystem) {
        let (repo, to) = (repository(fs), fs.join("to"));
        with(&["-q"], &[&repo, &to, id("no-such")]).expect(1).saying("no-such");
        assert!(!to.exists());
        with(&["-q", "--last", "0"], &[&repo, &to]).expect(2).saying("--last");
        with(&["-q", "--last=1"], &[&repo, &to, id("one")]).expect(2).saying("--last");
        with(&["-q", "--all"], &[&repo, &to, id("one")]).expect(2).saying("--all");
        with(&["-q"], &[&repo]).expect(2).saying("destination");
        with(&["-q"], &[&repo, id("nas:to")]).expect(2).saying("ssh://");
        with(&["-q"], &[&repo, id("ssh://nas")]).expect(2).saying("path is missing");
        assert_eq!(sent(&with(&["--json", "--last=1"], &[&repo, &to]).expect(0)).len(), 1);
        assert_eq!(listed(&to), ["three"]);
        let run = with(&[], &[&repo, &to, id("latest")]).expect(0);
        assert!(run.stdout.starts_with("nothing to send"), "{run:?}");
        let run = with(&["--json"], &[&repo, &to, id("on")]).expect(0);
        assert_eq!(sent(&run), [("one".to_string(), Some("three".to_string()))]);
        let mut two = command(["replicate", "-q"]);
        finish(two.arg(&to).arg("two").env("PLEACH_REPO", &repo)).expect(0);
        assert_replica(&repo, &to);
    }

    [xfs, btrfs] fn a_destination_in_the_repository_is_refused(fs: &Filesystem) {
        let repo = repository(fs);
        std::os::unix::fs::symlink(&repo, fs.join("link")).unwrap();
        for to in [repo.clone(), fs.join("link"), repo.join("."), repo.join("new"), fs.join("link/new/deep"),
            repo.join("one/new"), repo.join(".pleach/new")] {
            with(&["-q"], &[&repo, &to]).expect(2).saying("cannot replicate to");
        }
        assert_eq!(names(&repo), [".pleach", "latest", "one", "three", "two"]);
    }

    [xfs] fn the_same_disk_is_no_second_one(fs: &Filesystem) {
        let (repo, other) = (repository(fs), fs.elsewhere());
        let run = with(&["--json"], &[&repo, &fs.join("to")]).expect(0).saying("if that disk breaks");
        let warnings = run.lines_of_type("warning");
        let codes: Vec<_> = warnings.iter().map(|warning| &warning["code"]).collect();
        assert_eq!(codes, ["repository-made", "same-filesystem"]);
        with(&["-q"], &[&repo, &other.join("to")]).expect(0);
        let run = with(&["--json"], &[&repo, &other.join("to")]).expect(0);
        assert_eq!(run.lines_of_type("warning"), [Value::Null; 0]);
    }

    [xfs] fn a_locked_destination_is_reported_and_a_locked_repository_can_be_read(fs: &Filesystem) {
        let (repo, to) = (repository(fs), fs.join("to"));
        let lock = |repo: &Path| {
            let lock = fs::File::open(repo.join(".pleach/lock")).unwrap();
            rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
            lock
        };
        let held = lock(&repo);
        assert_eq!(replicate(&repo, &to).snapshots, 3);
        drop(held);
        let _held = lock(&to);
        with(&["-q"], &[&repo, &to]).expect(11).saying("lock");
    }

    [xfs, btrfs] fn a_damaged_snapshot_is_never_sent_and_the_others_are(fs: &Filesystem) {
        let (source, repo) = four(fs);
        let to = fs.join("to");
        for (name, damage) in [("two", rot as fn(&Path)), ("three", |path: &Path| fs::remove_file(path).unwrap())] {
            let path = file(&repo, name, &source, "b");
            tools::let_be_removed(&repo.join(name));
            damage(&path);
        }
        let run = with(&["--json"], &[&repo, &to]).expect(4);
        assert_eq!(sent(&run), [("one".to_string(), None), ("four".to_string(), Some("one".to_string()))]);
        assert_eq!((number(&run.summary(), "snapshots"), number(&run.summary(), "errors")), (2, 2));
        for name in ["two", "three"] {
            assert!(run.stderr.contains(&format!("the snapshot {name}")), "{}", run.stderr);
        }
        assert_eq!(listed(&to), ["one", "four"]);
        pleach([OsStr::new("verify"), "-q".as_ref(), to.as_os_str()]).expect(0);
    }

    [xfs, btrfs] fn a_snapshot_with_a_missing_entry_is_damaged_and_the_others_are_sent(fs: &Filesystem) {
        let (source, repo) = four(fs);
        let to = fs.join("to");
        fs.dir("source/d");
        write(source.join("d/c"), &bytes(20, 300_000));
        take("five", &source, &repo);
        write(source.join("d/c"), &bytes(21, 300_000));
        take("six", &source, &repo);
        for name in ["two", "three", "five"] {
            tools::let_be_removed(&repo.join(name));
        }
        fs::remove_file(file(&repo, "two", &source, "b")).unwrap();
        fs::remove_file(file(&repo, "three", &source, "b")).unwrap();
        std::os::unix::fs::symlink("a", file(&repo, "three", &source, "b")).unwrap();
        fs::remove_dir_all(file(&repo, "five", &source, "d")).unwrap();
        let run = with(&["--json"], &[&repo, &to]).expect(4);
        let names: Vec<_> = sent(&run).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["one", "four", "six"]);
        let errors = run.lines_of_type("error");
        assert_eq!(errors.len(), 3, "{errors:?}");
        for (error, (name, path, why)) in errors.iter().zip([
            ("two", "b", "missing in the snapshot"),
            ("three", "b", "something else is in its place"),
            ("five", "d", "missing in the snapshot"),
        ]) {
            assert_eq!(error["code"], "damage");
            assert_eq!(error["path"], source.join(path).to_str().unwrap());
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(why), "{message}");
            assert!(message.contains(&format!("the snapshot {name} was not sent")), "{message}");
        }
        assert_eq!(listed(&to), names);
        let mut send = command(["send"]);
        finish(send.arg(&repo).arg("two").stdout(fs::File::create(fs.join("stream")).unwrap())).expect(4);
    }

    [xfs] fn a_damaged_snapshot_that_all_others_need_ends_the_run(fs: &Filesystem) {
        let (source, repo) = four(fs);
        let to = fs.join("to");
        rot(&file(&repo, "one", &source, "a"));
        let run = with(&["-q"], &[&repo, &to]).expect(4);
        let run = run.saying("cannot send the snapshot one").saying("pleach verify").saying("name other snapshots");
        run.saying(&format!("cannot receive {}: its content", source.join("a").display()));
        assert_eq!(listed(&to), [""; 0]);
        assert_eq!(sums(&with(&["--json", "--last=3"], &[&repo, &to]).expect(0)).snapshots, 3);
    }

    [xfs] fn a_snapshot_with_a_damaged_manifest_is_reported(fs: &Filesystem) {
        let (_, repo) = four(fs);
        let to = fs.join("to");
        fs::write(repo.join(".pleach/manifests/two"), "no manifest").unwrap();
        let run = with(&["--json"], &[&repo, &to]).expect(4);
        assert_eq!(number(&run.summary(), "errors"), 1);
        assert_eq!(listed(&to), ["one", "three", "four"]);
    }

    [xfs] fn another_snapshot_of_a_name_is_reported_and_the_others_are_sent(fs: &Filesystem) {
        let (_, repo) = four(fs);
        let to = fs.join("to");
        take("two", &fs.dir("other source"), &to);
        let run = with(&["--json"], &[&repo, &to]).expect(1);
        assert_eq!(run.lines_of_type("error").len(), 1);
        run.saying("cannot send the snapshot two");
        assert_eq!(listed(&to).len(), 4);
        let plan = with(&["--dry-run"], &[&repo, &to]).expect(1).stdout;
        assert!(plan.starts_with(&format!("dry run: nothing would be sent to {}\n", to.display())), "{plan}");
    }

    [xfs] fn a_replica_in_a_source_of_the_newest_snapshot_is_reported(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        let to = source.join("replica");
        let warned = |to: &Path, options: &[&str]| {
            let run = with(&[&["--json"], options].concat(), &[&repo, to]).expect(0);
            let codes = run.lines_of_type("warning").into_iter().map(|warning| warning["code"].clone());
            codes.filter(|code| code == "replica-in-source").count()
        };
        write(source.join("file"), &bytes(1, 10_000));
        take("one", &source, &repo);
        assert_eq!(warned(&to, &[]), 0);
        take("two", &source, &repo);
        std::os::unix::fs::symlink(&source, fs.join("link")).unwrap();
        assert_eq!(warned(&to, &["--dry-run"]), 1);
        assert_eq!(warned(&fs.join("link/replica"), &[]), 1);
        // Nothing is sent.
        assert_eq!(warned(&to, &[]), 0);
        let mut three = command(["snapshot", "-q", "--name=three", "--exclude"]);
        finish(three.args([&to, &source, &repo])).expect(0);
        assert_eq!(warned(&to, &[]), 0);
        assert_eq!(warned(&fs.join("elsewhere"), &[]), 0);
    }

    [xfs] fn a_replication_that_ends_early_counts_what_it_sent(fs: &Filesystem) {
        let (source, repo, to) = (fs.dir("source"), fs.join("repo"), fs.join("to"));
        write(source.join("file"), &bytes(1, 5000));
        take("one", &source, &repo);
        write(source.join("file"), &bytes(2, 300_000));
        take("two", &source, &repo);
        let mut limited = Command::new("prlimit");
        limited.args(["--fsize=90000", env!("CARGO_BIN_EXE_pleach"), "replicate", "--json"]).arg(&repo).arg(&to);
        let run = finish(limited.env_remove("PLEACH_REPO")).expect(1).saying("file too large");
        assert_eq!(sent(&run), [("one".to_string(), None)]);
        let summary = run.summary();
        assert_eq!((number(&summary, "snapshots"), number(&summary, "errors")), (1, 1));
        assert_eq!(summary["complete"], false);
        // Without a result there is no summary.
        let mut limited = Command::new("prlimit");
        limited.args(["--fsize=90000", env!("CARGO_BIN_EXE_pleach"), "replicate", "--json"]).arg(&repo).arg(&to);
        let run = finish(limited.env_remove("PLEACH_REPO")).expect(1);
        assert!(run.lines_of_type("summary").is_empty(), "{run:?}");
        let done = with(&["--json"], &[&repo, &to]).expect(0).summary();
        assert_eq!((number(&done, "snapshots"), &done["complete"]), (1, &Value::Bool(true)));
        assert_replica(&repo, &to);
    }
}

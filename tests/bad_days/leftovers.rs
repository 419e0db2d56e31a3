//! Leftovers that cannot be cleared, here because they are immutable. They block no run, and each run reports them.

use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A directory in the repository's own that no run can move or delete.
struct Stuck(PathBuf);

impl Stuck {
    #[track_caller]
    fn new(repo: &Path, area: &str) -> Stuck {
        let stuck = repo.join(".pleach").join(area).join("stuck");
        fs::create_dir_all(&stuck).unwrap();
        tools::tool("chattr", &["+i"], &stuck);
        Stuck(stuck)
    }

    /// Asserts that a run did its work, and that its only problem is the leftover.
    #[track_caller]
    fn assert_only_problem(&self, run: Run, when: &str) {
        let run = run.expect(3);
        let problems = run.lines::<json_lines::Problem>();
        let shown: Vec<_> = problems.iter().map(|problem| (problem.code.as_str(), problem.path.as_deref())).collect();
        assert_eq!(shown, [("permission-denied", self.0.to_str())], "{when}: {problems:?}");
        assert_eq!(number(&run.summary(), "errors"), 1, "{when}");
        assert!(self.0.exists(), "{when}");
    }

    /// Lets it be cleared.
    fn free(self) {
        tools::tool("chattr", &["-i"], &self.0);
    }
}

/// Arguments with the repository after the first of them.
fn words<'a>(repo: &'a Path, words: &[&'a str]) -> Vec<&'a OsStr> {
    let rest = words[1..].iter().map(|word| OsStr::new(*word));
    [OsStr::new(words[0]), "--json".as_ref(), repo.as_os_str()].into_iter().chain(rest).collect()
}

/// A file with the stream of a snapshot.
#[track_caller]
fn stream(repo: &Path, name: &str, to: PathBuf) -> PathBuf {
    let mut send = command(["send".as_ref(), repo.as_os_str(), name.as_ref()]);
    assert!(send.stdout(File::create(&to).unwrap()).status().unwrap().success());
    to
}

on_filesystems! {
    fn a_leftover_that_cannot_be_cleared_blocks_no_command_and_is_reported_by_each(fs: &Filesystem) {
        let (source, repo, other) = (fs.dir("source"), fs.join("repo"), fs.join("other"));
        tree::plain(&source);
        pleach(snapshot_named("one", &source, &repo)).expect(0);
        pleach(snapshot_named("elsewhere", &source, &other)).expect(0);
        let stream = stream(&other, "elsewhere", fs.join("stream"));
        for area in ["partial", "incoming", "trash", "blocks", "marks", "manifests"] {
            let stuck = Stuck::new(&repo, area);
            settle();
            stuck.assert_only_problem(pleach(snapshot_named("two", &source, &repo)), &format!("snapshot, {area}"));
            tools::assert_equal_trees(&source, &inside(&repo, "two", &source));
            let prune = words(&repo, &["prune", "--keep-last", "9"]);
            stuck.assert_only_problem(pleach(prune), &format!("prune, {area}"));
            let receive = words(&repo, &["receive"]);
            let received = finish(command(receive).stdin(File::open(&stream).unwrap()));
            stuck.assert_only_problem(received, &format!("receive, {area}"));
            let replicate = ["replicate".as_ref(), "--json".as_ref(), other.as_os_str(), repo.as_os_str()];
            stuck.assert_only_problem(pleach(replicate), &format!("replicate, {area}"));
            let mut all = listed(&repo);
            all.sort();
            assert_eq!(all, ["elsewhere", "one", "two"], "{area}");
            let removed = pleach(words(&repo, &["remove", "two", "elsewhere"]));
            assert_eq!(number(&removed.summary(), "removed"), 2, "{area}");
            stuck.assert_only_problem(removed, &format!("remove, {area}"));
            assert_eq!(listed(&repo), ["one"], "{area}");
            stuck.free();
            pleach(words(&repo, &["prune", "--keep-last", "9"])).expect(0);
            assert!(!repo.join(".pleach").join(area).join("stuck").exists(), "{area}");
            assert_no_leftovers(&repo);
        }
    }

    [xfs] fn files_of_a_killed_run_that_cannot_be_moved_are_reused_where_they_are(fs: &Filesystem) {
        let (source, repo) = (fs.elsewhere(), fs.join("repo"));
        tree::plain(source.path());
        pleach(snapshot_named("one", source.path(), &repo)).expect(0);
        for number in 0..10 {
            write(source.join(format!("new {number}")), &bytes(number, 400_000));
        }
        settle();
        stop::take_until(2_000_000, "stuck", source.path(), &repo);
        let left = repo.join(".pleach/partial/stuck");
        assert!(left.join("finished").exists());
        tools::tool("chattr", &["+i"], &left);
        let stuck = Stuck(left);
        let run = pleach(snapshot_named("two", source.path(), &repo));
        assert!(number(&run.summary(), "resumed_files") > 0, "{run:?}");
        stuck.assert_only_problem(run, "resumed");
        tools::assert_equal_trees(source.path(), &inside(&repo, "two", source.path()));
        stuck.free();
        pleach(snapshot_named("three", source.path(), &repo)).expect(0);
        assert_no_leftovers(&repo);
    }

    fn only_a_snapshot_of_the_same_name_is_refused(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        pleach(snapshot_named("one", &source, &repo)).expect(0);
        let stuck = Stuck::new(&repo, "partial");
        pleach(snapshot_named("stuck", &source, &repo)).expect(1).saying("partial/stuck");
        assert_eq!(published(&repo), ["one"]);
        stuck.free();
        pleach(snapshot_named("stuck", &source, &repo)).expect(0);
        assert_no_leftovers(&repo);
    }
}

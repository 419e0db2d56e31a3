//! `pleach offsite prune`: what the rules keep, and that nothing else is lost.

use super::lines::{self, Judged, PruneSums, PushSums, sums};
use super::stores::{Backend, Store};
use super::{below, in_store, seen_by_restic, take};
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// A store with the snapshots `one` to `five` of a tree that changes each time; `two` has the tag `keep`.
fn five(fs: &Filesystem) -> (PathBuf, PathBuf, Store) {
    let (source, repo, store) = (fs.dir("source"), fs.join("repo"), Store::made(fs, Backend::Local));
    tree::plain(&source);
    for (number, name) in ["one", "two", "three", "four", "five"].into_iter().enumerate() {
        write(source.join("daily"), &bytes(500 + number as u64, 200_000));
        settle();
        let tag = if name == "two" { &["--tag", "keep"][..] } else { &[] };
        pleach(snapshot_named(name, &source, &repo).into_iter().chain(tag.iter().map(OsStr::new))).expect(0);
    }
    store.push(&repo);
    (source, repo, store)
}

/// The size of all packs.
fn stored(fs: &Filesystem) -> u64 {
    tools::files(&fs.join("store/data")).iter().map(|pack| fs::metadata(pack).unwrap().len()).sum()
}

#[track_caller]
fn assert_restores(fs: &Filesystem, store: &Store, repo: &Path, source: &Path, name: &str) {
    let to = store.restores(name, fs.join(format!("restored {name}")));
    tools::assert_equal_trees(&inside(repo, name, source), &below(&to, source));
}

on_filesystems! {
    [xfs] fn the_rules_keep_what_they_name_and_free_the_rest(fs: &Filesystem) {
        let (source, repo, store) = five(fs);
        let rules = ["--keep-last", "2", "--keep-tag", "keep"].map(OsStr::new);
        let dry = store.run("prune", &[&rules[..], &["--dry-run".as_ref()]].concat()).expect(0);
        let kept = |run: &Run| {
            let kept = run.lines::<Judged>().into_iter().filter(|line| line.kept);
            kept.map(|line| line.name).collect::<Vec<_>>()
        };
        assert_eq!(kept(&dry), ["two", "four", "five"]);
        assert_eq!(in_store(&store).len(), 5);
        let before = stored(fs);
        let done = store.run("prune", &[&rules[..], &["--now".as_ref()]].concat()).expect(0);
        assert_eq!(kept(&done), kept(&dry));
        assert_eq!(in_store(&store), ["two", "four", "five"]);
        store.assert_sound();
        let (planned, sums): (PruneSums, PruneSums) = (sums(&dry), sums(&done));
        assert_eq!((sums.kept, sums.removed, planned.removed), (3, 2, 2));
        let freed = before.saturating_sub(stored(fs));
        assert!(sums.freed_bytes > 0 && sums.freed_bytes.abs_diff(freed) < 50_000, "{freed} and {sums:?}");
        // A run rewrites only a tenth of the store, and later ones continue.
        for _ in 0..8 {
            store.run("prune", &[&rules[..], &["--now".as_ref()]].concat()).expect(0);
        }
        let freed = before.saturating_sub(stored(fs));
        // Two versions of a file of 200,000 bytes, less the tolerated twentieth.
        assert!(freed >= 400_000 - before / 20, "{freed} of {before}");
        store.assert_sound();
        for name in ["two", "four", "five"] {
            assert_restores(fs, &store, &repo, &source, name);
        }
        // A pruned snapshot can be pushed again.
        let again = store.run("push", &[repo.as_ref(), "one".as_ref()]).expect(0);
        assert_eq!(lines::sums::<PushSums>(&again).snapshots, 1);
        assert_restores(fs, &store, &repo, &source, "one");
        store.assert_sound();
    }

    [xfs] fn without_now_data_is_only_marked_for_a_later_run(fs: &Filesystem) {
        let (source, repo, store) = five(fs);
        let rules = ["--keep-last", "1"].map(OsStr::new);
        let before = stored(fs);
        let sums: PruneSums = sums(&store.run("prune", &rules).expect(0));
        assert!(sums.removed == 4 && sums.later_bytes >= 600_000, "{sums:?}");
        assert!(stored(fs) + sums.freed_bytes >= before, "{sums:?}");
        store.assert_sound();
        // A push from elsewhere may have begun to use the marked data.
        store.push(&repo);
        store.assert_sound();
        for name in ["one", "five"] {
            assert_restores(fs, &store, &repo, &source, name);
        }
    }

    [xfs] fn an_empty_policy_removes_nothing(fs: &Filesystem) {
        let (_, _, store) = five(fs);
        let run = store.run("prune", &[]);
        assert!([1, 2].contains(&run.status), "{run:?}");
        run.saying("--keep-");
        assert_eq!(in_store(&store).len(), 5);
    }

    [xfs] fn the_periods_keep_the_newest_of_each(fs: &Filesystem) {
        let (_, _, store) = five(fs);
        // All are of the same minute, but for a change of the hour in the middle.
        let run = store.run("prune", &["--keep-daily".as_ref(), "7".as_ref()]).expect(0);
        let kept: Vec<_> = run.lines::<Judged>().into_iter().filter(|line| line.kept).collect();
        assert!(kept.iter().any(|line| line.name == "five"), "{kept:?}");
        assert!(kept.iter().all(|line| !line.reasons.is_empty()), "{kept:?}");
        assert_eq!(in_store(&store).len(), kept.len());
        let run = store.run("prune", &["--keep-within".as_ref(), "1h".as_ref()]).expect(0);
        assert_eq!(sums::<PruneSums>(&run).removed, 0);
        store.assert_sound();
    }

    [xfs] fn each_source_keeps_its_own_and_other_hosts_keep_theirs(fs: &Filesystem) {
        let (source, _, store) = five(fs);
        let (other, other_repo) = (fs.dir("other"), fs.join("other repo"));
        write(other.join("file"), &bytes(1, 5000));
        take("other", &other, &other_repo);
        store.push(&other_repo);
        store.restic(&["backup".as_ref(), "--host".as_ref(), "elsewhere".as_ref(), source.as_ref()]).expect(0);
        let run = store.run("prune", &["--keep-last".as_ref(), "1".as_ref()]).expect(0);
        assert_eq!(sums::<PruneSums>(&run).removed, 4);
        let seen = seen_by_restic(&store);
        assert_eq!(seen.len(), 3, "{seen:?}");
        assert!(seen.iter().any(|snapshot| snapshot["hostname"] == "elsewhere"));
        assert!(in_store(&store).contains(&"other".into()) && in_store(&store).contains(&"five".into()));
        store.assert_sound();
    }

    [xfs] fn a_failure_after_the_snapshots_were_removed_is_a_problem_of_the_rest(fs: &Filesystem) {
        let (source, repo, store) = five(fs);
        let index = fs.join("store/index");
        let rule = ["--keep-last", "1"].map(OsStr::new);
        // The snapshots are removed first, then the index is replaced.
        tools::tool("chattr", &["+i"], &index);
        let run = store.run("prune", &rule);
        tools::tool("chattr", &["-i"], &index);
        let run = run.expect(3).saying("the snapshots are removed");
        let removed = run.lines::<Judged>().into_iter().filter(|line| !line.kept).count();
        let done: PruneSums = sums(&run);
        assert_eq!((removed, done.kept, done.removed, done.errors), (4, 1, 4, 1), "{run:?}");
        assert_eq!(in_store(&store), ["five"]);
        let again: PruneSums = sums(&store.run("prune", &[&rule[..], &["--now".as_ref()]].concat()).expect(0));
        assert!((again.removed, again.errors) == (0, 0) && again.freed_bytes > 0, "{again:?}");
        store.assert_sound();
        assert_restores(fs, &store, &repo, &source, "five");
    }
}

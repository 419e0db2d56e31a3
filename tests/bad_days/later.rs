//! Steps that fail after the work counts: a snapshot has appeared or is gone. The run reports them, and its result.

use crate::harness::*;
use crate::on_filesystems;
use pleach::monitor::Silent;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// Runs pleach; each fsync of the file or directory `at` fails.
fn without_sync(at: &Path, args: &[&OsStr]) -> Run {
    tools::without_sync(at, "", args.iter().copied())
}

fn prune(repo: &Path) -> [&OsStr; 4] {
    ["prune".as_ref(), "--json".as_ref(), "--keep-last=99".as_ref(), repo.as_os_str()]
}

/// Takes a snapshot for each of these names.
#[track_caller]
fn take(names: &[&str], source: &Path, repo: &Path) {
    for name in names {
        settle();
        pleach(snapshot_named(name, source, repo)).expect(0);
    }
}

fn remove<'a>(repo: &'a Path, names: &[&'a str]) -> Vec<&'a OsStr> {
    let words = ["remove", "--json", "-j1"].map(OsStr::new).into_iter();
    words.chain([repo.as_os_str()]).chain(names.iter().map(|name| OsStr::new(*name))).collect()
}

/// The snapshots in the result of a removal, and whether each was kept.
#[track_caller]
fn fates(run: &Run) -> Vec<(String, bool)> {
    let fate = |line: Value| (line["name"].as_str().unwrap().to_string(), line["kept"].as_bool().unwrap());
    run.lines_of_type("snapshot").into_iter().map(fate).collect()
}

fn gone(names: &[&str]) -> Vec<(String, bool)> {
    names.iter().map(|name| (name.to_string(), false)).collect()
}

/// Asserts that only these snapshots are there, in the order of their names, and nothing unfinished.
#[track_caller]
fn assert_only(repo: &Path, snapshots: &[&str]) {
    let mut listed = listed(repo);
    listed.sort();
    assert_eq!(listed, snapshots);
    assert_eq!(names(&repo.join(".pleach/manifests")), snapshots);
    assert_no_leftovers(repo);
}

on_filesystems! {
    fn a_snapshot_that_cannot_be_synced_has_appeared_and_is_reported(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        write(source.join("image"), &bytes(1, 9 << 20));
        take(&["one"], &source, &repo);
        overwrite(&source.join("image"), 5000, b"changed");
        settle();
        let has_seen = repo.join(".pleach/seen/one").exists();
        let run = without_sync(&repo, &snapshot_named("two", &source, &repo)).expect(1);
        let run = run.saying("the snapshot two is complete, but may not survive a power cut");
        assert_eq!(number(&run.summary(), "errors"), 1);
        assert_eq!(listed(&repo), ["one", "two"]);
        assert_eq!(fs::read_link(repo.join("latest")).unwrap().to_str(), Some("two"));
        tools::assert_equal_trees(&source, &inside(&repo, "two", &source));
        let control = |name: &str| repo.join(".pleach").join(name);
        assert!(control("added/two").exists(), "its cost is recorded");
        assert!(!control("problems/two").exists(), "it is not a problem of the snapshot");
        // After a power cut these may be needed.
        assert!(control("partial/two").exists());
        assert!(control("blocks/one").exists() || !fs.reflinks());
        assert_eq!(control("seen/one").exists(), has_seen);
        let run = pleach(["verify".as_ref(), "--json".as_ref(), repo.as_os_str()]).expect(0);
        assert_eq!(number(&run.summary(), "damaged"), 0);
        take(&["three"], &source, &repo);
        assert_only(&repo, &["one", "three", "two"]);
    }

    fn a_snapshot_that_was_received_and_could_not_be_synced_is_no_success(fs: &Filesystem) {
        let (source, repo, other) = (fs.dir("source"), fs.join("repo"), fs.join("other"));
        tree::plain(&source);
        take(&["one", "two"], &source, &repo);
        let replicate = ["replicate".as_ref(), repo.as_os_str(), other.as_os_str()];
        pleach(replicate).expect(0);
        take(&["three"], &source, &repo);
        without_sync(&other, &replicate).expect(1).saying("may not survive a power cut");
        assert_eq!(listed(&other), ["one", "two", "three"]);
        // Nothing is left to send, but nobody must believe that all is well.
        without_sync(&other, &replicate).expect(3).saying("cannot sync");
        pleach(replicate).expect(0);
        assert_only(&other, &["one", "three", "two"]);
    }

    fn a_pin_that_could_not_be_synced_is_synced_when_it_is_repeated(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        take(&["one", "two"], &source, &repo);
        let words = |verb: &'static str, name: &'static str| [OsStr::new(verb), repo.as_os_str(), OsStr::new(name)];
        pleach(words("pin", "two")).expect(0);
        for verb in ["pin", "unpin"] {
            // It is in effect, and the second run finds it unchanged.
            for _ in 0..2 {
                let run = without_sync(&repo.join(".pleach/marks"), &words(verb, "one")).expect(1);
                run.saying("may not survive a power cut");
                assert_eq!(pleach(remove(&repo, &["one", "--dry-run"])).status, if verb == "pin" { 3 } else { 0 });
            }
            pleach(words(verb, "one")).expect(0);
        }
    }

    fn a_removal_that_cannot_be_synced_is_reported_and_deletes_nothing_more(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        take(&["one", "two", "three"], &source, &repo);
        let run = without_sync(&repo, &remove(&repo, &["one", "two"])).expect(3);
        let run = run.saying("a power cut may bring them back");
        assert_eq!(fates(&run), gone(&["one", "two"]));
        let summary = run.summary();
        assert_eq!((number(&summary, "removed"), number(&summary, "errors")), (2, 1), "{summary}");
        assert_eq!(listed(&repo), ["three"]);
        // After a power cut they would need all this.
        assert_eq!(names(&repo.join(".pleach/manifests")), ["one", "three", "two"]);
        let trees = if tools::is_subvolume(&repo.join("three")) { 0 } else { 2 };
        assert_eq!(names(&repo.join(".pleach/trash")).len(), trees);
        // The next run deletes their files only if it can sync that they are gone.
        let run = without_sync(&repo, &prune(&repo)).expect(3).saying("nothing is cleared until this succeeds");
        assert_eq!(number(&run.summary(), "errors"), 1);
        without_sync(&repo, &snapshot_named("one", &source, &repo)).expect(1).saying("cannot sync");
        assert_eq!(names(&repo.join(".pleach/manifests")), ["one", "three", "two"]);
        assert_eq!(names(&repo.join(".pleach/trash")).len(), trees);
        pleach(prune(&repo)).expect(0);
        assert_only(&repo, &["three"]);
    }

    [xfs] fn after_a_sync_that_failed_a_removal_removes_no_further_snapshots(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        // More than are removed together.
        let all: Vec<String> = (0..70).map(|number| format!("s{number:02}")).collect();
        for name in &all {
            stop::take(name, &source, &repo, &Silent).expect("a snapshot");
        }
        settle();
        take(&["last"], &source, &repo);
        let words: Vec<&str> = all.iter().map(String::as_str).collect();
        // The first two precede the work.
        let run = tools::without_sync(&repo, "3", remove(&repo, &words)).expect(3);
        let run = run.saying("a power cut may bring them back");
        let kept: Vec<String> = fates(&run).into_iter().filter(|(_, kept)| *kept).map(|(name, _)| name).collect();
        assert_eq!(kept, all[64..]);
        assert_eq!((number(&run.summary(), "removed"), number(&run.summary(), "errors")), (64, 1));
        assert_eq!(names(&repo.join(".pleach/manifests")).len(), 71);
        assert_eq!(names(&repo.join(".pleach/trash")).len(), 64);
        pleach(prune(&repo)).expect(0);
        assert_only(&repo, &[&["last"][..], &words[64..]].concat());
    }

    fn a_manifest_that_stays_hinders_no_removal_and_goes_with_the_next_run(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        take(&["one", "two", "three"], &source, &repo);
        let manifest = repo.join(".pleach/manifests/one");
        tools::tool("chattr", &["+i"], &manifest);
        let stuck = repo.join(".pleach/partial/stuck");
        fs::create_dir(&stuck).unwrap();
        tools::tool("chattr", &["+i"], &stuck);
        let run = pleach(remove(&repo, &["one", "two"])).expect(3).saying("manifests/one").saying("partial/stuck");
        assert_eq!(fates(&run), gone(&["one", "two"]));
        assert_eq!((number(&run.summary(), "errors"), run.lines::<json_lines::Problem>().len()), (2, 2));
        assert_eq!(listed(&repo), ["three"]);
        for path in [&manifest, &stuck] {
            tools::tool("chattr", &["-i"], path);
        }
        pleach(prune(&repo)).expect(0);
        assert_only(&repo, &["three"]);
    }

    // On Btrfs one call deletes a tree.
    [xfs, ext4] fn an_interrupted_removal_names_the_snapshots_that_are_gone(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        fs::create_dir(source.join("many")).unwrap();
        tree::crowded(&source.join("many"), 200);
        take(&["one", "two", "three"], &source, &repo);
        let run = tools::interrupted_at("unlinkat", 100, remove(&repo, &["one", "two"])).expect(130);
        let run = run.saying("interrupted").saying("the next run finishes deleting");
        assert_eq!(fates(&run), gone(&["one", "two"]));
        let summary = run.summary();
        assert_eq!((number(&summary, "removed"), number(&summary, "errors")), (2, 1), "{summary}");
        assert_eq!(summary["complete"], false);
        assert_eq!(listed(&repo), ["three"]);
        let run = pleach(remove(&repo, &["three"])).expect(0);
        assert_eq!(run.summary()["complete"], true);
        assert_only(&repo, &[]);
    }

    [xfs] fn a_repeated_removal_says_that_it_removed_nothing(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        take(&["one", "two"], &source, &repo);
        pleach(remove(&repo, &["one"])).expect(0);
        let run = pleach(remove(&repo, &["one", "two"])).expect(1);
        run.saying("cannot find a snapshot 'one'").saying("nothing was removed");
        assert_eq!(listed(&repo), ["two"]);
    }
}

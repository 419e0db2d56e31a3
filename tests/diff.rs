//! `pleach diff`: every kind of change has its letter, between snapshots and with the live tree, and rsync agrees.

pub(crate) mod damage;
mod incomplete;
mod live;
mod patch;
mod planned;
mod random;

use crate::harness::*;
use crate::on_filesystems;
use pleach::monitor::Recording;
use pleach::snapshot::diff::{self, Options};
use serde::Deserialize;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

/// The summary of `diff`.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Summary {
    r#type: String,
    command: String,
    pub(super) old: String,
    pub(super) new: String,
    pub(super) added: u64,
    pub(super) removed: u64,
    pub(super) content: u64,
    pub(super) metadata: u64,
    pub(super) kind: u64,
    pub(super) renamed: u64,
    pub(super) rotten: u64,
    pub(super) unreadable: u64,
    pub(super) old_incomplete: bool,
    pub(super) new_incomplete: bool,
    pub(super) read_bytes: u64,
    pub(super) errors: u64,
    seconds: f64,
}

pub(super) fn summary(run: &Run) -> Summary {
    serde_json::from_value(run.summary()).unwrap()
}

/// Runs `diff` between two snapshots.
pub(super) fn compare(repo: &Path, a: &str, b: &str, more: &[&OsStr]) -> Run {
    let words = ["diff".as_ref(), repo.as_os_str(), a.as_ref(), b.as_ref()];
    pleach(words.into_iter().chain(more.iter().copied()))
}

/// Takes a snapshot with this name.
#[track_caller]
pub(crate) fn take(name: &str, source: &Path, repo: &Path) {
    settle();
    pleach(snapshot_named(name, source, repo)).expect(0);
}

/// The lines of text, with paths relative to the source.
pub(super) fn lines(run: &Run, source: &Path) -> Vec<String> {
    let source = format!("{}/", source.display());
    run.stdout.lines().map(|line| line.replace(&source, "")).collect()
}

/// A tree, and its changes of every kind.
pub(super) fn before(source: &Path) {
    for dir in ["a/sub", "b/typed", "gone", "old/deep"] {
        fs::create_dir_all(source.join(dir)).unwrap();
    }
    for name in ["a/same", "a/f1", "b/mod", "b/copyme", "b/touched", "b/chmod", "b/xattr", "b/type", "b/typed/z"] {
        write(source.join(name), format!("the content of {name}\n").as_bytes());
    }
    for name in ["gone/g", "old/n1", "old/deep/n2", "old/deep/n3", "old/deep/n4"] {
        write(source.join(name), format!("the content of {name}\n").as_bytes());
    }
    symlink("a", source.join("b/link")).unwrap();
    fs::hard_link(source.join("b/mod"), source.join("b/hard")).unwrap();
    tools::tool("setfattr", &["-n", "user.note", "-v", "1"], &source.join("b/xattr"));
}

pub(super) fn change(source: &Path) {
    let at = |name: &str| source.join(name);
    write(at("b/mod"), b"another content\n");
    fs::remove_dir_all(at("gone")).unwrap();
    fs::remove_file(at("b/link")).unwrap();
    symlink("b", at("b/link")).unwrap();
    fs::remove_file(at("b/type")).unwrap();
    fs::create_dir(at("b/type")).unwrap();
    write(at("b/type/in"), b"in it\n");
    fs::remove_dir_all(at("b/typed")).unwrap();
    write(at("b/typed"), b"now a file\n");
    fs::rename(at("old"), at("renamed")).unwrap();
    write(at("renamed/deep/n2"), b"changed after the rename\n");
    fs::set_permissions(at("renamed/deep/n3"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(at("a/f1"), at("a/F1")).unwrap();
    tools::tool("cp", &["-p", at("b/copyme").to_str().unwrap()], &at("a/moved"));
    fs::remove_file(at("b/copyme")).unwrap();
    tree::set_mtime(&at("b/touched"), 1_000_000_000, 5);
    fs::set_permissions(at("b/chmod"), fs::Permissions::from_mode(0o700)).unwrap();
    tools::tool("setfattr", &["-n", "user.note", "-v", "2"], &at("b/xattr"));
    write(at("a/new"), b"new\n");
    fs::create_dir(at("a/new dir")).unwrap();
    fs::set_permissions(at("a/sub"), fs::Permissions::from_mode(0o711)).unwrap();
}

/// The changes, in the order of the tree. `is_live`: no new file is read, so none is known by its content.
pub(super) fn expected(is_live: bool) -> Vec<String> {
    let (moved, copied): (&str, &[&str]) =
        if is_live { ("+ a/moved", &["- b/copyme"]) } else { ("R b/copyme -> a/moved", &[]) };
    let first = ["R a/f1 -> a/F1", moved, "+ a/new", "+ 'a/new dir'", "U a/sub", "U b/chmod"];
    let then = ["M b/hard", "M b/link", "M b/mod", "U b/touched", "T b/typed", "U b/xattr", "T b/type", "+ b/type/in"];
    let last = ["- b/typed/z", "- gone", "- gone/g", "R old -> renamed", "M renamed/deep/n2", "U renamed/deep/n3"];
    first.iter().chain(copied).chain(&then).chain(&last).map(ToString::to_string).collect()
}

/// The expected lines, with the quotes of paths with spaces around the whole path.
pub(super) fn unquoted(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().map(|line| line.replace('\'', "")).collect()
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

on_filesystems! {
    [xfs] fn an_empty_file_that_was_renamed_and_touched_has_the_same_content(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        for name in ["empty", "stays", "other"] {
            write(source.join(name), b"");
        }
        let hashless = |name: &str| {
            settle();
            let args = ["snapshot", "--hash", "none", "--name", name].map(OsStr::new);
            pleach(args.into_iter().chain([source.as_os_str(), repo.as_os_str()])).expect(0);
        };
        take("one", &source, &repo);
        hashless("two");
        fs::rename(source.join("empty"), source.join("moved")).unwrap();
        for name in ["moved", "stays"] {
            tree::set_mtime(&source.join(name), 1_000_000_000, 5);
        }
        take("three", &source, &repo);
        hashless("four");
        for (old, new) in [("one", "three"), ("two", "four")] {
            let run = compare(&repo, old, new, &[]).expect(0);
            assert_eq!(lines(&run, &source), ["R empty -> moved", "U moved", "U stays"], "{old} {new}");
        }
    }

    [xfs] fn a_name_is_shown_whole_however_long_its_record_is(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("z"), b"x");
        take("one", &source, &repo);
        take("two", &source, &repo);
        let long = "z".repeat(70_000);
        manifests::edit(&repo, "two", |_, items, _| {
            for item in items {
                if let pleach::testing::manifest::Item::Entry(entry) = item {
                    entry.name = long.clone().into_bytes();
                    entry.meta.ino = 0;
                    if let pleach::testing::manifest::Body::File(file) = &mut entry.body {
                        file.hash = None;
                    }
                }
            }
        });
        let run = compare(&repo, "one", "two", &[]);
        assert!(run.stdout.contains(&format!("/{long}\n")), "{}", run.stdout.len());
    }

    fn every_kind_of_change_has_its_letter(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        before(&source);
        take("one", &source, &repo);
        let same = compare(&repo, "one", "one", &[]).expect(0).saying("no differences");
        assert_eq!(same.stdout, "");
        change(&source);
        settle();
        let live = compare(&repo, "one", "live", &[]).expect(0);
        assert_eq!(sorted(unquoted(lines(&live, &source))), sorted(unquoted(expected(true))));
        take("two", &source, &repo);
        let run = compare(&repo, "one", "two", &[]).expect(0);
        assert_eq!(unquoted(lines(&run, &source)), unquoted(expected(false)));
        assert_eq!(compare(&repo, "two", "live", &[]).expect(0).stdout, "", "nothing has changed since");

        let json = compare(&repo, "one", "tw", &["--json".as_ref()]).expect(0);
        let Summary { added, removed, content, metadata, kind, renamed, rotten, errors, .. } = summary(&json);
        assert_eq!([added, removed, content, metadata, kind, renamed, rotten, errors], [3, 3, 4, 5, 2, 3, 0, 0]);
        assert_eq!((summary(&json).old, summary(&json).new), ("one".into(), "two".into()));
        let changes = json.lines_of_type("change");
        let renames: Vec<_> = changes.iter().filter(|change| change["change"] == "R").collect();
        assert_eq!(renames[0]["from"], source.join("a/f1").to_str().unwrap());
        assert_eq!(renames[0]["path"], source.join("a/F1").to_str().unwrap());

        // Backwards, added entries are removed ones.
        let back = summary(&compare(&repo, "two", "one", &["--json".as_ref()]).expect(0));
        assert_eq!((back.added, back.removed, back.renamed, back.kind), (removed, added, renamed, kind));
    }

    [xfs] fn only_the_path_that_was_named_is_compared(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        before(&source);
        take("one", &source, &repo);
        change(&source);
        take("two", &source, &repo);
        let of = |b: &str, path: &str| {
            let run = compare(&repo, "one", b, &[source.join(path).as_os_str()]).expect(0);
            unquoted(lines(&run, &source))
        };
        for b in ["two", "live"] {
            assert_eq!(of(b, "b/mod"), ["M b/mod"], "{b}");
            assert_eq!(of(b, "gone"), ["- gone", "- gone/g"], "{b}");
            assert_eq!(of(b, "b/type"), ["T b/type", "+ b/type/in"], "{b}");
            assert_eq!(of(b, "b/typed"), ["T b/typed", "- b/typed/z"], "{b}");
            assert_eq!(of(b, "renamed/deep/n2"), ["+ renamed/deep/n2"], "{b}");
            assert_eq!(of(b, "a/same"), [""; 0], "{b}");
            let missing = compare(&repo, "one", b, &[source.join("nowhere").as_os_str()]).expect(1);
            missing.saying("cannot find");
            compare(&repo, "one", b, &["a".as_ref()]).expect(2).saying("not absolute");
        }
        let elsewhere = compare(&repo, "one", "live", &["/nowhere/at/all".as_ref()]).expect(1);
        elsewhere.saying("not in a source");
        compare(&repo, "live", "one", &[]).expect(2).saying("only be the second");
        compare(&repo, "one", "three", &[]).expect(1).saying("cannot find a snapshot");
        compare(&repo, "one", "two", &["--json".as_ref(), "--patch".as_ref()]).expect(2);
        // The repository may come from the environment.
        let run = finish(command(["diff", "one", "two"]).env("PLEACH_REPO", &repo)).expect(0);
        assert_eq!(unquoted(lines(&run, &source)), unquoted(expected(false)));
    }

    [xfs] fn sums_are_of_the_top_directories_with_the_largest_first(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        for name in ["small/one", "large/one", "same/one"] {
            fs::create_dir_all(source.join(name).parent().unwrap()).unwrap();
            write(source.join(name), &bytes(1, 10_000));
        }
        take("one", &source, &repo);
        write(source.join("large/two"), &bytes(2, 3_000_000));
        write(source.join("large/one"), &bytes(3, 20_000));
        fs::remove_file(source.join("small/one")).unwrap();
        write(source.join("top"), &bytes(4, 100));
        take("two", &source, &repo);
        let run = compare(&repo, "one", "two", &["--stat".as_ref(), "--json".as_ref()]).expect(0);
        let stats = run.lines_of_type("stat");
        let tops: Vec<_> = stats.iter().map(|stat| stat["path"].as_str().unwrap().to_string()).collect();
        let wanted = ["large", "small", "top"].map(|name| source.join(name).to_str().unwrap().to_string());
        assert_eq!(tops, wanted);
        assert_eq!((number(&stats[0], "old_bytes"), number(&stats[0], "new_bytes")), (10_000, 3_020_000));
        assert_eq!((number(&stats[0], "added"), number(&stats[0], "content")), (1, 1));
        assert_eq!((number(&stats[1], "old_bytes"), number(&stats[1], "removed")), (10_000, 1));
        assert!(run.lines_of_type("change").is_empty());
        let table = compare(&repo, "one", "two", &["--stat".as_ref()]).expect(0).stdout;
        assert!(table.lines().last().unwrap().contains("(all)") && !table.contains("same"), "{table}");
    }

    [xfs] fn beyond_the_limit_of_memory_renamed_files_are_removed_and_added_ones(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        fs::create_dir(source.join("old")).unwrap();
        tree::crowded(&source.join("old"), 500);
        take("one", &source, &repo);
        fs::rename(source.join("old"), source.join("new")).unwrap();
        take("two", &source, &repo);
        let run = |rename_memory| {
            let monitor = Recording::default();
            let mut number = 0;
            let mut report = |_: &diff::Difference<'_>| {
                number += 1;
                Ok(())
            };
            let options = Options { rename_memory, ..Options::default() };
            let stats = diff::diff(&repo, ("one", "two"), &options, &monitor, &mut report).unwrap();
            (stats, number, monitor.events.into_inner().unwrap())
        };
        let (stats, number, events) = run(1 << 20);
        assert_eq!((stats.renamed, stats.added, stats.removed, number, events.len()), (1, 0, 0, 1, 0));
        let (stats, number, events) = run(50_000);
        assert_eq!((stats.renamed, stats.added, stats.removed, number), (0, 501, 501, 1002));
        assert!(events.len() == 1 && events[0].contains("RenamesNotSought"), "{events:?}");
    }

    [xfs, ext4] fn without_hashes_size_times_and_inode_decide(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        before(&source);
        let take = |name: &str| {
            settle();
            let args = snapshot_named(name, &source, &repo);
            pleach(args.into_iter().chain(["--hash".as_ref(), "none".as_ref()])).expect(0);
        };
        take("one");
        change(&source);
        take("two");
        let run = compare(&repo, "one", "two", &[]).expect(0);
        let mut wanted = unquoted(expected(true));
        // Only the content proves that a touched file is the same.
        wanted.iter_mut().filter(|line| *line == "U b/touched").for_each(|line| *line = "M b/touched".into());
        assert_eq!(sorted(unquoted(lines(&run, &source))), sorted(wanted));
    }

    [xfs] fn hostile_names_and_all_kinds_of_entries_are_compared(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::every_kind(&source);
        take("one", &source, &repo);
        assert_eq!(compare(&repo, "one", "live", &[]).expect(0).stdout, "");
        // Every inode is another one now, so all attributes are compared.
        let copy = fs.join("copy");
        finish(Command::new("cp").arg("-a").arg(&source).arg(&copy)).expect(0);
        fs::remove_dir_all(&source).unwrap();
        fs::rename(&copy, &source).unwrap();
        take("two", &source, &repo);
        let run = compare(&repo, "one", "two", &[]).expect(0);
        assert_eq!(run.stdout, "", "only inodes differ");
        fs::remove_dir_all(source.join("names")).unwrap();
        take("three", &source, &repo);
        let run = compare(&repo, "one", "three", &[]).expect(0);
        let are_removed = run.stdout.lines().all(|line| line.starts_with("- "));
        assert!(!run.stdout.contains('\x1b') && are_removed, "{}", run.stdout);
        let json = compare(&repo, "one", "three", &["--json".as_ref()]).expect(0);
        assert!(json.lines_of_type("change").iter().any(|line| line["path_base64"].is_string()));
        assert_eq!(summary(&json).removed, run.stdout.lines().count() as u64);
    }
}

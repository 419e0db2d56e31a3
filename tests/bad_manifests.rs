//! Manifests that are truncated, altered or replaced: each is refused with a message, and the next snapshot still
//! works.

mod forged;
mod matrix;

use crate::harness::manifests::{edit, manifest};
use crate::harness::*;
use crate::on_filesystems;
use pleach::testing::manifest::Time;
use rustix::fs::{CWD, FileType, Mode};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The damage done to a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Beginning,
    Block,
    Index,
    CutShort,
    Emptied,
    ReplacedByPipe,
    ReplacedByDirectory,
}

impl Damage {
    const ALL: [Damage; 7] = [
        Damage::Beginning,
        Damage::Block,
        Damage::Index,
        Damage::CutShort,
        Damage::Emptied,
        Damage::ReplacedByPipe,
        Damage::ReplacedByDirectory,
    ];

    fn inflict(self, manifest: &Path) {
        let length = fs::metadata(manifest).unwrap().len();
        let cut = |length| File::options().write(true).open(manifest).unwrap().set_len(length).unwrap();
        match self {
            Damage::Beginning => flip(manifest, 30),
            Damage::Block => flip(manifest, length / 3),
            // The index ends where the totals begin; the footer has their offset.
            Damage::Index => flip(manifest, footer_number(manifest, 16) - 1),
            Damage::CutShort => cut(length - 1),
            Damage::Emptied => cut(0),
            Damage::ReplacedByPipe => {
                fs::remove_file(manifest).unwrap();
                rustix::fs::mknodat(CWD, manifest, FileType::Fifo, Mode::RUSR, 0).unwrap();
            }
            Damage::ReplacedByDirectory => {
                fs::remove_file(manifest).unwrap();
                fs::create_dir(manifest).unwrap();
            }
        }
    }
}

fn flip(path: &Path, at: u64) {
    let mut byte = [0];
    File::open(path).unwrap().read_exact_at(&mut byte, at).unwrap();
    overwrite(path, at, &[byte[0] ^ 1]);
}

/// A number of the footer. The footer is 112 bytes long.
fn footer_number(path: &Path, at: u64) -> u64 {
    let file = File::open(path).unwrap();
    let mut number = [0; 8];
    file.read_exact_at(&mut number, file.metadata().unwrap().len() - 112 + at).unwrap();
    u64::from_le_bytes(number)
}

fn run_snapshot(name: &str, source: &Path, repo: &Path) -> Run {
    settle();
    pleach(snapshot_named(name, source, repo))
}

fn restored(repo: &Path, id: &str, target: &Path) -> Run {
    pleach([OsStr::new("restore"), "--target".as_ref(), target.as_ref(), repo.as_ref(), id.as_ref()])
}

/// Moves the timestamp of a snapshot into the future, as if the clock had been ahead.
fn put_forward(repo: &Path, name: &str, seconds: i64) {
    edit(repo, name, |header, _, _| {
        header.created = Time { seconds: header.created.seconds + seconds, nanos: 5 };
    });
}

/// A name of a repository, and the damage to its newest snapshot, `two`.
type Lost = (&'static str, fn(&Path));

on_filesystems! {
    fn after_any_damage_to_the_last_manifest_a_full_snapshot_is_made_and_says_why(fs: &Filesystem) {
        let source = fs.dir("source");
        tree::plain(&source);
        for damage in Damage::ALL {
            let repo = fs.join(format!("repo {damage:?}"));
            run_snapshot("one", &source, &repo).expect(0);
            damage.inflict(&manifest(&repo, "one"));
            let run = run_snapshot("two", &source, &repo).expect(0);
            let summary = run.summary();
            let run = run.saying("manifests/one").saying("a full snapshot is made");
            assert_eq!(run.stderr.lines().filter(|line| line.contains("manifest")).count(), 1, "{}", run.stderr);
            assert_eq!((number(&summary, "new_files"), number(&summary, "unchanged_files")), (5, 0), "{damage:?}");
            tools::assert_equal_trees(&source, &inside(&repo, "two", &source));
            assert_no_leftovers(&repo);

            let third = run_snapshot("three", &source, &repo).expect(0).summary();
            assert_eq!(number(&third, "unchanged_files"), 5, "{damage:?}");
            let refused = restored(&repo, "one", &fs.join("target"));
            assert_eq!(refused.status, 4, "{damage:?}: {}", refused.stderr);
            refused.saying("manifests/one");
            tools::assert_equal_trees(&source, &inside(&repo, "one", &source));
        }
    }

    [xfs, btrfs] fn an_older_snapshot_stands_in_for_one_whose_manifest_is_damaged(fs: &Filesystem) {
        let source = fs.dir("source");
        tree::plain(&source);
        for damage in Damage::ALL {
            let repo = fs.join(format!("repo {damage:?}"));
            run_snapshot("one", &source, &repo).expect(0);
            run_snapshot("two", &source, &repo).expect(0);
            damage.inflict(&manifest(&repo, "two"));
            let run = run_snapshot("three", &source, &repo).expect(0);
            assert_eq!(number(&run.summary(), "unchanged_files"), 5, "{damage:?}");
            run.saying("manifests/two").saying("compared with one instead");
        }
    }

    [xfs] fn latest_stands_for_no_older_snapshot_if_the_newest_is_damaged(fs: &Filesystem) {
        let source = fs.dir("source");
        tree::plain(&source);
        let file = source.join("file");
        let lost: [Lost; 3] = [
            ("without-manifest", |repo| fs::remove_file(manifest(repo, "two")).unwrap()),
            ("no-tree", |repo| {
                fs::rename(repo.join("two"), repo.join("away")).unwrap();
                std::os::unix::fs::symlink("away", repo.join("two")).unwrap();
            }),
            ("block", |repo| Damage::Block.inflict(&manifest(repo, "two"))),
        ];
        for (name, damage) in lost {
            let repo = fs.join(name);
            for (name, content) in [("one", "old"), ("two", "new")] {
                write(&file, content.as_bytes());
                run_snapshot(name, &source, &repo).expect(0);
            }
            damage(&repo);
            let status = if name == "block" { 4 } else { 1 };
            let latest = OsStr::new("latest");
            let args = |command: &'static str| [OsStr::new(command), repo.as_os_str(), latest, file.as_os_str()];
            let cat = pleach(args("cat")).expect(status).saying("two");
            assert_eq!(cat.stdout, "");
            let target = fs.join("target");
            let restore = args("restore").into_iter().chain(["--target".as_ref(), target.as_os_str()]);
            pleach(restore).expect(status).saying("two");
            assert!(!target.join(file.strip_prefix("/").unwrap()).exists());
            for command in ["find", "log"] {
                let pattern = if command == "find" { OsStr::new("*file") } else { file.as_os_str() };
                pleach([command.as_ref(), repo.as_os_str(), pattern]).saying("two");
            }
            pleach(["du".as_ref(), "--snapshots".as_ref(), repo.as_os_str()]);
        }
    }

    [xfs] fn a_dry_run_beside_a_damaged_manifest_plans_a_full_snapshot_once(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        run_snapshot("one", &source, &repo).expect(0);
        Damage::Block.inflict(&manifest(&repo, "one"));
        let args = ["snapshot".as_ref(), "--dry-run".as_ref(), "-v".as_ref(), source.as_os_str(), repo.as_ref()];
        let plan = pleach(args).expect(0);
        assert_eq!(plan.stdout.lines().filter(|line| line.contains("three")).count(), 1, "{}", plan.stdout);
        plan.saying("a full snapshot");
    }

    fn a_clock_that_was_set_back_changes_neither_names_nor_order(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        let first = snapshot(&source, &repo)["name"].as_str().unwrap().to_string();
        put_forward(&repo, &first, 86_400);
        let mut names = vec![first];
        for number_of_run in 0..3 {
            write(source.join("counter"), format!("{number_of_run}").as_bytes());
            settle();
            let args = ["snapshot".as_ref(), "--json".as_ref(), source.as_os_str(), repo.as_ref()];
            let run = pleach(args).expect(0).saying("the clock says");
            let summary = run.summary();
            // Each snapshot follows the previous one, whatever the clock says.
            assert_eq!(number(&summary, "unchanged_files"), 5, "{summary}");
            names.push(summary["name"].as_str().unwrap().to_string());
            assert_eq!(fs::read_link(repo.join("latest")).unwrap().to_str(), names.last().map(String::as_str));
        }
        assert_eq!(listed(&repo), names);
        assert!(names.is_sorted(), "{names:?}");
        let target = fs.join("target");
        restored(&repo, "latest", &target).expect(0);
        assert_eq!(fs::read(target.join(source.strip_prefix("/").unwrap()).join("counter")).unwrap(), b"2");
    }
}

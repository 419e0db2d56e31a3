//! Snapshots and subvolumes that are deleted while they are measured.

use crate::harness::*;
use crate::on_filesystems;
use pleach::error::Error;
use pleach::monitor::{Amount, Event, Monitor};
use pleach::snapshot::{du, prune, remove};
use pleach::usage;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, Once};

/// Deletes something when a phase begins: this one, or any.
struct Deletes<F> {
    once: Once,
    phase: Option<&'static str>,
    delete: F,
    reports: Mutex<Vec<String>>,
}

impl<F: Fn() + Sync> Deletes<F> {
    fn new(phase: Option<&'static str>, delete: F) -> Self {
        Deletes { once: Once::new(), phase, delete, reports: Mutex::default() }
    }

    fn reports(self) -> Vec<String> {
        assert!(self.once.is_completed(), "it was deleted");
        self.reports.into_inner().unwrap()
    }
}

impl<F: Fn() + Sync> Monitor for Deletes<F> {
    fn phase(&self, name: &str, _: Option<Amount>) {
        if self.phase.is_none_or(|phase| phase == name) {
            self.once.call_once(&self.delete);
        }
    }

    fn problem(&self, error: &Error) {
        self.reports.lock().unwrap().push(error.to_string());
    }

    fn event(&self, event: Event<'_>) {
        self.reports.lock().unwrap().push(format!("{event:?}"));
    }
}

/// Three snapshots that share data with each other, as all neighbours do.
fn three_snapshots(fs: &Filesystem) -> PathBuf {
    let (source, repo) = (fs.dir("source"), fs.join("repo"));
    tree::crowded(&source, 50);
    for (number, name) in ["one", "two", "three"].into_iter().enumerate() {
        write(source.join("new"), &bytes(number as u64, 300_000));
        if name != "one" {
            write(source.join("both"), &bytes(9, 500_000));
        }
        settle();
        pleach(snapshot_named(name, &source, &repo)).expect(0);
    }
    repo
}

fn remove_two(repo: &Path) {
    pleach([OsStr::new("remove"), repo.as_ref(), "two".as_ref()]).expect(0);
}

const REPORT: &str = "SnapshotNotMeasured(\"two\")";

on_filesystems! {
    fn a_snapshot_that_is_deleted_meanwhile_is_reported_once_and_the_others_are_measured(fs: &Filesystem) {
        const ALL: &[&str] = &[];
        const NAMED: &[&str] = &["one", "two", "three"];
        let anew = du::Options { measure_again: true, ..du::Options::default() };
        for (ids, options, phase) in [
            (NAMED, du::Options::default(), Some("walking")),
            (ALL, anew, Some("walking")),
            (ALL, anew, None),
            (ALL, du::Options::default(), None),
        ] {
            let repo = three_snapshots(fs);
            let monitor = Deletes::new(phase, || remove_two(&repo));
            let stats = du::du(&repo, ids, &options, &monitor).unwrap();
            assert_eq!((monitor.reports(), stats.errors), (vec![REPORT.to_string()], 0), "{ids:?}, {options:?}");
            let names: Vec<_> = stats.rows.iter().map(|row| row.name.as_str()).collect();
            assert_eq!(names, ["one", "three"]);
            let after = du::du(&repo, &["one", "three"], &anew, &pleach::monitor::Silent).unwrap();
            // XFS frees inodes by chunks of 32 KiB, which other tests have inodes in, and later than the files.
            let slack = if fs.kind == Kind::Xfs { 96 << 10 } else { 0 };
            let rows = |stats: &du::Stats| stats.rows.iter().map(|row| row.freed.bytes).collect::<Vec<_>>();
            let bytes = |stats: &du::Stats| [rows(stats), vec![stats.set.bytes]].concat();
            let (meanwhile, later) = (bytes(&stats), bytes(&after));
            let is_near = |(one, other): (&u64, &u64)| one.abs_diff(*other) <= slack;
            assert!(meanwhile.iter().zip(&later).all(is_near), "{meanwhile:?}, {later:?}, {ids:?}, {options:?}");
            tools::let_be_removed(&repo);
            std::fs::remove_dir_all(&repo).unwrap();
            std::fs::remove_dir_all(fs.join("source")).unwrap();
        }
    }

    fn a_dry_run_does_not_plan_to_remove_what_another_run_removes_meanwhile(fs: &Filesystem) {
        let repo = three_snapshots(fs);
        let monitor = Deletes::new(Some("walking"), || remove_two(&repo));
        let keep = prune::Keep { last: 1, ..prune::Keep::default() };
        let options = prune::Options { keep, dry_run: true, ..prune::Options::default() };
        let stats = prune::prune(&repo, &options, &monitor).unwrap();
        assert_eq!((monitor.reports(), stats.errors), (vec![REPORT.to_string()], 0));
        let rows: Vec<_> = stats.rows.iter().map(|row| (row.name.as_str(), row.kept)).collect();
        assert_eq!((rows, stats.removed), (vec![("one", false), ("three", true)], 1));

        let monitor = Deletes::new(Some("walking"), || {
            pleach([OsStr::new("remove"), repo.as_ref(), "one".as_ref()]).expect(0);
        });
        let options = remove::Options { dry_run: true, ..remove::Options::default() };
        let stats = remove::remove(&repo, &["one"], &options, &monitor).unwrap();
        assert_eq!((monitor.reports(), stats.errors), (vec![REPORT.replace("two", "one")], 0));
        assert_eq!((stats.rows, stats.removed, stats.freed.bytes), (vec![], 0, 0));
    }

    [btrfs] fn a_subvolume_that_is_deleted_meanwhile_is_missing_and_the_rest_is_measured(fs: &Filesystem) {
        let (gone, stays) = (fs.join("gone"), fs.dir("stays"));
        let btrfs = |words: &[&str], path: &Path| {
            finish(Command::new("btrfs").args(words).arg(path)).expect(0);
        };
        btrfs(&["subvolume", "create"], &gone);
        write(gone.join("file"), &bytes(1, 100_000));
        write(stays.join("file"), &bytes(2, 50_000));
        let monitor = Deletes::new(Some("reading trees"), || btrfs(&["subvolume", "delete"], &gone));
        let stats = usage::measure(&[gone.clone(), stays.clone()], &usage::Options::default(), &monitor).unwrap();
        let [problem] = &monitor.reports()[..] else { panic!("one problem") };
        assert_eq!(*problem, format!("cannot find {}: No such file or directory", gone.display()));
        assert_eq!((stats.errors, stats.rows.len(), &stats.rows[0].path), (1, 1, &stays));
        assert_eq!((stats.set.files, stats.set.apparent_bytes), (1, 50_000));
    }
}

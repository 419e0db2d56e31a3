//! Backups that another program renames and deletes while they are adopted: each snapshot is of one whole backup and
//! has its time, or there is none.

use crate::harness::*;
use crate::on_filesystems;
use pleach::monitor::Monitor;
use pleach::snapshot::adopt::{Layout, Options, adopt};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many directories and files a backup has.
const SIZE: usize = 12;
/// The time of the oldest backup, in days since 1970. The others are of the days after it.
const FIRST: i64 = 20_000;

/// Meddles when the engine has asked so often whether it should stop.
struct After<F> {
    left: AtomicUsize,
    meddle: F,
}

impl<F: Fn() + Sync> Monitor for After<F> {
    fn is_cancelled(&self) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) == Ok(1) {
            (self.meddle)();
        }
        false
    }
}

/// Three backups of rsnapshot. All files in one have its day as their content.
fn make_backups(root: &Path) {
    for number in 0..3 {
        let (backup, day) = (root.join(format!("daily.{number}")), FIRST + 2 - number);
        for name in 0..SIZE {
            fs::create_dir_all(backup.join(name.to_string())).unwrap();
            (0..SIZE).for_each(|file| write(backup.join(format!("{name}/{file}")), day.to_string().as_bytes()));
        }
        tree::set_mtime(&backup, day * 86_400, 0);
    }
}

/// What rsnapshot does before it makes a backup.
fn rotate(root: &Path) {
    let backup = |number: u32| root.join(format!("daily.{number}"));
    fs::remove_dir_all(backup(2)).unwrap();
    fs::rename(backup(1), backup(2)).unwrap();
    fs::rename(backup(0), backup(1)).unwrap();
    fs::create_dir_all(backup(0).join("0")).unwrap();
    write(backup(0).join("0/0"), b"not finished");
}

/// Adopts the backups, and meddles at several moments of such runs. Returns how many of these runs made all three
/// snapshots.
fn adopted_meanwhile(fs: &Filesystem, meddle: impl Fn(&Path) + Sync) -> usize {
    let mut complete = 0;
    // The last run is left alone.
    for moment in (1..40).step_by(3).chain((40..200).step_by(20)).chain([usize::MAX]) {
        let dir = fs.dir(format!("at-{moment}"));
        let (root, repo) = (dir.join("rsnapshot"), dir.join("repo"));
        make_backups(&root);
        let monitor = After { left: AtomicUsize::new(moment), meddle: || meddle(&root) };
        let mut options = Options { layout: Layout::Rsnapshot, source: Some("/data".into()), ..Options::default() };
        options.threads = Some(2);
        let result = adopt(std::slice::from_ref(&root), &repo, &options, &monitor);
        let names = published(&repo);
        for name in &names {
            let day = (FIRST..FIRST + 3).find(|day| name.starts_with(&shown(*day))).expect("a day of a backup");
            let files = tools::files(&repo.join(name).join("data"));
            assert_eq!(files.len(), SIZE * SIZE, "{name}, at {moment}: {result:?}");
            let is_of_that_day = |file: &std::path::PathBuf| fs::read(file).unwrap() == day.to_string().as_bytes();
            assert!(files.iter().all(is_of_that_day), "{name}, at {moment}: {result:?}");
        }
        match result {
            Ok(stats) if stats.errors == 0 => {
                assert_eq!(names.len(), 3, "at {moment}");
                complete += 1;
            }
            _ => assert!(names.len() < 3, "at {moment}"),
        }
        assert_no_leftovers(&repo);
    }
    complete
}

fn shown(day: i64) -> String {
    jiff::Timestamp::from_second(day * 86_400).unwrap().strftime("%Y-%m-%d").to_string()
}

on_filesystems! {
    [xfs, btrfs] fn a_rotation_of_backups_makes_no_snapshot_of_two_or_of_another_one(fs: &Filesystem) {
        let complete = adopted_meanwhile(fs, rotate);
        assert!(complete > 0, "without a rotation, all are adopted");
    }

    [xfs, btrfs] fn a_backup_that_is_deleted_while_it_is_read_becomes_no_snapshot(fs: &Filesystem) {
        adopted_meanwhile(fs, |root| fs::remove_dir_all(root.join("daily.2/5")).unwrap());
    }
}

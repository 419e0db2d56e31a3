//! Emptying a trash directory.

use super::directory::Limits;
use super::*;
use crate::monitor::{Monitor, Recording, Silent};
use rustix::fs::{self, Mode, OFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::Path;

fn run(trash: &Path, monitor: &dyn Monitor) -> Stats {
    let dir = std::fs::File::open(trash).unwrap();
    empty(dir.as_fd(), trash, &Options { threads: Some(2), subvolumes: false }, monitor).unwrap()
}

#[test]
fn trees_of_any_depth_are_deleted_and_links_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let trash = dir.path().join("trash");
    let outside = dir.path().join("outside");
    std::fs::create_dir_all(outside.join("kept")).unwrap();
    std::fs::create_dir_all(trash.join("wide")).unwrap();
    for i in 0..200 {
        std::fs::create_dir_all(trash.join(format!("wide/{i}/x/y"))).unwrap();
        std::fs::write(trash.join(format!("wide/{i}/file")), "x").unwrap();
    }
    symlink(&outside, trash.join("link")).unwrap();
    symlink(&outside, trash.join("wide/link")).unwrap();
    // Deeper than PATH_MAX.
    let mut deep: OwnedFd = std::fs::File::open(&trash).unwrap().into();
    let name = "d".repeat(200);
    for _ in 0..60 {
        fs::mkdirat(&deep, &name, Mode::RWXU).unwrap();
        deep = fs::openat(&deep, &name, OFlags::RDONLY, Mode::empty()).unwrap();
    }
    let stats = run(&trash, &Silent);
    assert_eq!((stats.dirs, stats.files, stats.errors), (1 + 600 + 60, 202, 0));
    assert_eq!(std::fs::read_dir(&trash).unwrap().count(), 0);
    assert!(outside.join("kept").exists());
}

#[test]
fn everything_is_deleted_if_few_directories_may_be_known_or_open() {
    for (known, open) in [(0, 0), (1, 1), (2, 100), (100, 2), (7, 3)] {
        let dir = tempfile::tempdir().unwrap();
        let trash = dir.path().join("trash");
        for i in 0..20 {
            std::fs::create_dir_all(trash.join(format!("{}/{i}/x/y/z", i % 3))).unwrap();
            std::fs::write(trash.join(format!("{}/{i}/x/file", i % 3)), "x").unwrap();
        }
        let opened = std::fs::File::open(&trash).unwrap();
        let options = Options { threads: Some(2), subvolumes: false };
        let stats = trash::empty_within(Limits::of(known, open), opened.as_fd(), &trash, &options, &Silent).unwrap();
        assert_eq!((stats.dirs, stats.files, stats.errors), (3 + 20 * 4, 20, 0), "{known} known, {open} open");
        assert_eq!(std::fs::read_dir(&trash).unwrap().count(), 0);
    }
}

#[test]
fn what_cannot_be_deleted_is_named_once_and_the_rest_goes() {
    let dir = tempfile::tempdir().unwrap();
    let trash = dir.path().join("trash");
    std::fs::create_dir_all(trash.join("a/b")).unwrap();
    std::fs::write(trash.join("a/b/fixed"), "x").unwrap();
    std::fs::write(trash.join("a/b/free"), "x").unwrap();
    let chattr = |flag| std::process::Command::new("chattr").arg(flag).arg(trash.join("a/b/fixed")).status();
    if !chattr("+i").is_ok_and(|status| status.success()) {
        return; // Not root, or no such flag here.
    }
    let monitor = Recording::default();
    let stats = run(&trash, &monitor);
    let left = trash.join("a/b/fixed");
    let _ = chattr("-i");
    assert!(left.exists());
    assert!(!trash.join("a/b/free").exists());
    assert_eq!((stats.dirs, stats.files, stats.errors), (0, 1, 1));
    let problems = monitor.problems.lock().unwrap();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("a/b/fixed"), "{}", problems[0]);
}

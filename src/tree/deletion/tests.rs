//! Emptying a trash directory.

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
    let find = |dir: &Path| std::fs::read_dir(dir).unwrap().next().unwrap().unwrap().path();
    let left = find(&find(&trash));
    let _ = std::process::Command::new("chattr").arg("-i").arg(&left).status();
    assert!(left.ends_with("fixed"), "{left:?}");
    assert_eq!((stats.dirs, stats.files, stats.errors), (1, 1, 1));
    assert_eq!(monitor.problems.lock().unwrap().len(), 1);
}

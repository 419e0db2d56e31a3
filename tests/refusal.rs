//! `pleach snapshot` with unusable input: a clear message, the right exit status, nothing harmed.

use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

fn try_snapshot(source: &Path, repo: &Path) -> Run {
    pleach([OsStr::new("snapshot"), source.as_ref(), repo.as_ref()])
}

#[test]
fn an_unknown_option_is_wrong_usage() {
    pleach(["snapshot", "--no-such-option", "/a", "/b"]).expect(2).saying("--no-such-option");
}

#[test]
fn a_source_without_a_repository_is_wrong_usage() {
    pleach(["snapshot", "/etc"]).expect(2);
}

on_filesystems! {
    [xfs] fn a_missing_source_is_named(fs: &Filesystem) {
        let repo = fs.join("repo");
        try_snapshot(&fs.join("no such source"), &repo).expect(1).saying("no such source");
        assert!(!repo.exists() || published(&repo).is_empty());
    }

    [xfs] fn a_file_is_no_repository(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("a file"));
        tree::plain(&source);
        write(&repo, b"precious");
        try_snapshot(&source, &repo).expect(1).saying("a file");
        assert_eq!(fs::read(&repo).expect("the file can be read"), b"precious");
    }

    [xfs] fn a_directory_with_other_things_in_it_is_no_repository(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.dir("holiday"));
        tree::plain(&source);
        write(repo.join("photo"), b"precious");
        let before = tools::inventory(&repo);
        try_snapshot(&source, &repo).expect(1).saying("holiday");
        assert_same_lines(&tools::inventory(&repo), &before);
    }

    [xfs] fn an_empty_directory_becomes_a_repository(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.dir("repo"));
        tree::plain(&source);
        try_snapshot(&source, &repo).expect(0);
        assert_eq!(published(&repo).len(), 1);
    }

    [xfs] fn a_new_repository_is_announced_also_by_a_dry_run(fs: &Filesystem) {
        let (source, repo, other) = (fs.dir("source"), fs.dir("repo"), fs.dir("other"));
        tree::plain(&source);
        write(other.join("photo"), b"precious");
        let dry = |more: &str, repo: &Path| {
            pleach([OsStr::new("snapshot"), "--dry-run".as_ref(), more.as_ref(), source.as_ref(), repo.as_ref()])
        };
        let planned = dry("--progress=never", &repo).expect(0);
        assert_eq!(planned.stdout, "");
        planned.saying("there is no repository in").saying("(-v lists them)");
        assert!(dry("-v", &repo).expect(0).stdout.contains("+ /"));
        assert_eq!(dry("-q", &repo).expect(0).stderr, "");
        assert_eq!(names(&repo), [""; 0]);
        dry("-q", &other).expect(1).saying("Directory not empty (the last path is the repository");
        try_snapshot(&source, &repo).expect(0).saying("made a new repository in");
        let second = try_snapshot(&source, &repo).expect(0);
        assert!(!second.stderr.contains("repository"), "{}", second.stderr);
        let new = fs.join("new");
        let run = pleach([OsStr::new("snapshot"), "--json".as_ref(), source.as_ref(), new.as_ref()]);
        assert_eq!(run.expect(0).lines_of_type("warning")[0]["code"], "repository-made");
    }

    [xfs] fn a_snapshot_is_no_repository(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        pleach(snapshot_named("monday", &source, &repo)).expect(0);
        let listed = pleach([OsStr::new("list"), repo.join("monday").as_ref()]).expect(1);
        listed.saying(&format!("(it is a snapshot; the repository is {})", repo.display()));
        let listed = pleach([OsStr::new("list"), inside(&repo, "monday", &source).as_ref()]).expect(1);
        listed.saying("it is inside a snapshot");
    }

    [xfs] fn a_repository_of_an_unknown_format_is_refused(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.dir("repo"));
        tree::plain(&source);
        try_snapshot(&source, &repo).expect(0);
        let format = repo.join(".pleach/format");
        let text = fs::read_to_string(&format).expect("the format is text");
        write(&format, text.replace(|letter: char| letter.is_ascii_digit(), "987").as_bytes());
        try_snapshot(&source, &repo).expect(1).saying("format");
        assert_eq!(published(&repo).len(), 1);
    }

    [xfs] fn a_source_that_is_the_repository_is_wrong_usage(fs: &Filesystem) {
        let source = fs.dir("source");
        tree::plain(&source);
        try_snapshot(&source, &source).expect(2).saying("is a source and also the last path, which is the repository");
        symlink(&source, fs.join("way in")).expect("a symlink can be made");
        try_snapshot(&fs.join("way in"), &source).expect(2).saying("inside");
        assert!(!source.join(".pleach").exists());
    }

    [xfs] fn a_source_inside_the_repository_is_wrong_usage(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        try_snapshot(&source, &repo).expect(0);
        try_snapshot(&inside(&repo, "latest", &source), &repo).expect(2).saying("inside");
        assert_eq!(published(&repo).len(), 1);
    }

    fn an_unreadable_file_is_named_and_stops_nothing_else(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        for name in ["b", "c/d"] {
            fs::set_permissions(source.join(name), fs::Permissions::from_mode(0o000)).expect("a mode can be set");
        }
        settle();
        let run = finish(&mut command_bound_by_permissions(snapshot_named("one", &source, &repo))).expect(3);
        let summary = run.summary();
        assert_eq!(number(&summary, "errors"), 2, "{summary}");
        let run = run.saying(&source.join("b").to_string_lossy());
        run.saying(&source.join("c/d").to_string_lossy()).saying("permission denied");
        let copy = inside(&repo, "one", &source);
        assert_eq!(fs::read(copy.join("a")).expect("it was kept"), fs::read(source.join("a")).expect("it is there"));
        assert!(!copy.join("b").exists() || fs::metadata(copy.join("b")).is_ok_and(|meta| meta.len() == 0));

        for name in ["b", "c/d"] {
            fs::set_permissions(source.join(name), fs::Permissions::from_mode(0o755)).expect("a mode can be set");
        }
        snapshot(&source, &repo);
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }

    [xfs_small] fn a_full_disk_is_told_and_earlier_snapshots_stay_whole(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        tree::plain(&source);
        snapshot(&source, &repo);
        let before = tools::inventory(&repo.join("latest/"));

        let free = disk_space::free_bytes(fs.path());
        let ballast = File::create(fs.join("ballast")).expect("a file can be made");
        rustix::fs::fallocate(&ballast, rustix::fs::FallocateFlags::empty(), 0, free - (40 << 20))
            .expect("there is room");
        for number in 0..60 {
            write(source.join(format!("large-{number}")), &bytes(number, 1 << 20));
        }
        let name = fs::read_link(repo.join("latest")).expect("latest is a symlink");
        settle();
        try_snapshot(&source, &repo).expect(1).saying("no space left");
        assert_eq!(fs::read_link(repo.join("latest")).expect("latest is a symlink"), name);
        assert_same_lines(&tools::inventory(&repo.join("latest/")), &before);
        assert_eq!(listed(&repo).len(), 1);
        assert_no_leftovers(&repo);

        disk_space::give_back(&fs.join("ballast"));
        drop(ballast);
        snapshot(&source, &repo);
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }
}

/// A disk that fills up while differing blocks are written into clones of the last versions.
fn a_disk_that_fills_up_among_changed_blocks(kind: Kind, test: &str) {
    let (Some(fs), Ok(other)) = (Own::new(kind, test, 512, &[], ""), Filesystem::open(Kind::XfsOther, test)) else {
        return;
    };
    let (source, repo) = (other.dir("source"), fs.join("repo"));
    for number in 0..6 {
        write(source.join(format!("image-{number}")), &bytes(number, 12 << 20));
    }
    snapshot(&source, &repo);
    let before = tools::checksums(&repo.join("latest/"));
    let ballast = File::create(fs.join("ballast")).expect("a file can be made");
    let room = disk_space::free_bytes(fs.path()).saturating_sub(40 << 20);
    // Btrfs keeps some of its reported free space for its trees.
    let filled = [room, room - (60 << 20), room - (90 << 20), room - (120 << 20)]
        .into_iter()
        .any(|length| rustix::fs::fallocate(&ballast, rustix::fs::FallocateFlags::empty(), 0, length).is_ok());
    assert!(filled, "there is room for something that takes the room away");
    for number in 0..6 {
        write(source.join(format!("image-{number}")), &bytes(100 + number, 12 << 20));
    }
    settle();
    try_snapshot(&source, &repo).expect(1).saying("no space left").saying("earlier snapshots are complete");
    assert_eq!(listed(&repo).len(), 1);
    assert_eq!(tools::checksums(&repo.join("latest/")), before);
    assert_no_leftovers(&repo);
    drop(ballast);
    disk_space::give_back(&fs.join("ballast"));
    snapshot(&source, &repo);
    tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    fs.assert_clean();
}

#[test]
fn a_disk_that_fills_up_among_changed_blocks_costs_no_snapshot_on_xfs() {
    let test = concat!(module_path!(), "::a_disk_that_fills_up_among_changed_blocks_costs_no_snapshot_on_xfs");
    a_disk_that_fills_up_among_changed_blocks(Kind::Xfs, test);
}

#[test]
fn a_disk_that_fills_up_among_changed_blocks_costs_no_snapshot_on_btrfs() {
    let test = concat!(module_path!(), "::a_disk_that_fills_up_among_changed_blocks_costs_no_snapshot_on_btrfs");
    a_disk_that_fills_up_among_changed_blocks(Kind::Btrfs, test);
}

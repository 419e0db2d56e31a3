//! Sources on XFS: a sweep over all inodes shows what changed.

use super::{cut_power_after_a_late_change, fill, has, night, random_changes, take};
use crate::harness::own::Own;
use crate::harness::*;
use pleach::snapshot::create::Options;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::path::{Path, PathBuf};

/// An XFS with a source on it, and a Btrfs for the repository.
struct Pair {
    xfs: Own,
    btrfs: Own,
    source: PathBuf,
    repo: PathBuf,
}

impl Pair {
    fn new(test: &str, options: &str, mkfs: &[&str]) -> Option<Pair> {
        let xfs = Own::new(Kind::Xfs, test, 320, mkfs, options)?;
        let btrfs = Own::new(Kind::Btrfs, test, 400, &[], "")?;
        let (source, repo) = (xfs.join("source"), btrfs.join("repo"));
        fs::create_dir(&source).unwrap();
        Some(Pair { xfs, btrfs, source, repo })
    }

    /// Takes three snapshots. From the second on, runs note the state of all inodes, and the third finds all settled.
    fn settle(&self) {
        for name in ["one", "two", "three"] {
            settle();
            take(name, std::slice::from_ref(&self.source), &self.repo, &Options::default());
        }
    }

    /// Takes a snapshot, asserts that it looks only at changes and that its tree equals the source, and returns how
    /// many files are new or changed.
    #[track_caller]
    fn narrow_night(&self, name: &str) -> u64 {
        let (stats, why) = night(name, &self.source, &self.repo);
        assert_eq!(why, None, "{name} looks only at what changed");
        tools::assert_equal_trees(&self.source, &inside(&self.repo, name, &self.source));
        stats.new_files + stats.changed_files
    }

    fn end(self) {
        self.xfs.assert_clean();
        self.btrfs.assert_clean();
    }
}

#[test]
fn random_changes_on_xfs_give_the_tree_and_the_manifest_of_a_walk_of_everything() {
    let test =
        concat!(module_path!(), "::random_changes_on_xfs_give_the_tree_and_the_manifest_of_a_walk_of_everything");
    let Some(source) = Own::new(Kind::Xfs, test, 1000, &[], "") else { return };
    let Some(repos) = Own::new(Kind::Btrfs, test, 4000, &[], "") else { return };
    random_changes(Kind::Xfs, &source, &repos, 6);
    source.assert_clean();
    repos.assert_clean();
}

#[test]
fn unchanged_directories_on_xfs_are_neither_listed_nor_their_entries_looked_at() {
    let test = concat!(module_path!(), "::unchanged_directories_on_xfs_are_neither_listed_nor_their_entries_looked_at");
    let Some(pair) = Pair::new(test, "", &[]) else { return };
    fill(&pair.source, 100);
    pair.settle();
    for directory in ["007", "042"] {
        write(pair.source.join(directory).join("file-3"), &bytes(1, 7000));
    }
    settle();
    let args = snapshot_named("four", &pair.source, &pair.repo);
    let calls = tools::traced_calls("getdents64,statx", &args, &pair.btrfs.join("trace"));
    let below = format!("{}/", pair.source.display());
    let of = |call: &str| calls.iter().filter(|line| line.contains(call) && line.contains(&below)).count();
    // As on Btrfs: the spot check, and one listing to see that the source is not empty.
    assert!(of("getdents64") <= 1 && of("statx") <= 16 * 22 + 40, "{} {}", of("getdents64"), of("statx"));
    tools::assert_equal_trees(&pair.source, &inside(&pair.repo, "four", &pair.source));
    write(pair.source.join("011/new"), b"new");
    fs::remove_file(pair.source.join("012/file-1")).unwrap();
    assert_eq!(pair.narrow_night("five"), 1);
    let (stats, why) = night("six", &pair.source, &pair.repo);
    assert_eq!((stats.files, stats.unchanged_files, stats.read_bytes, why), (2000, 2000, 0, None));
    pair.end();
}

#[test]
fn names_of_one_inode_stay_so_whatever_directory_is_renamed() {
    let test = concat!(module_path!(), "::names_of_one_inode_stay_so_whatever_directory_is_renamed");
    let Some(pair) = Pair::new(test, "", &[]) else { return };
    fill(&pair.source, 20);
    let path = |name: &str| pair.source.join(name);
    let outside = pair.xfs.join("outside");
    fs::create_dir(&outside).unwrap();
    for (from, to) in [("000/file-1", "001/also"), ("002/file-1", "003/also"), ("004/file-1", "005/also")] {
        fs::hard_link(path(from), path(to)).unwrap();
    }
    fs::hard_link(path("006/file-1"), outside.join("also")).unwrap();
    pair.settle();
    fs::rename(path("001"), path("moved")).unwrap();
    pair.narrow_night("four");
    // On XFS, an exchange in one directory changes neither of the two inodes.
    renameat_with(CWD, path("003"), CWD, path("010"), RenameFlags::EXCHANGE).unwrap();
    pair.narrow_night("five");
    renameat_with(CWD, path("004/file-1"), CWD, path("004/file-2"), RenameFlags::EXCHANGE).unwrap();
    pair.narrow_night("six");
    fs::rename(&outside, path("from outside")).unwrap();
    pair.narrow_night("seven");
    pair.end();
}

#[test]
fn a_file_that_becomes_the_tag_of_a_cache_excludes_its_directory() {
    let test = concat!(module_path!(), "::a_file_that_becomes_the_tag_of_a_cache_excludes_its_directory");
    let Some(pair) = Pair::new(test, "", &[]) else { return };
    fill(&pair.source, 10);
    let tag = pair.source.join("003/CACHEDIR.TAG");
    write(&tag, b"no tag yet");
    let mut options = Options::default();
    options.excludes.caches = true;
    let files = |name: &str, is_narrow| {
        settle();
        let (stats, recording) = take(name, std::slice::from_ref(&pair.source), &pair.repo, &options);
        assert_eq!(has(&recording, "ChangesOnly"), is_narrow, "{name}: {:?}", recording.events);
        stats.files
    };
    assert_eq!((files("one", false), files("two", false), files("three", true)), (201, 201, 201));
    write(&tag, b"Signature: 8a477f597d28d172789f06886806bc55");
    assert_eq!(files("four", true), 181);
    write(&tag, b"no tag any more");
    assert_eq!(files("five", true), 201);
    pair.end();
}

#[test]
fn an_xfs_that_was_set_back_gives_the_tree_as_it_is_now() {
    let test = concat!(module_path!(), "::an_xfs_that_was_set_back_gives_the_tree_as_it_is_now");
    let Some(mut pair) = Pair::new(test, "", &[]) else { return };
    fill(&pair.source, 20);
    pair.settle();
    let copy = pair.xfs.image().with_extension("copy");
    pair.xfs.edit_image(|image| assert!(fs::copy(image, &copy).is_ok()));
    write(pair.source.join("003/file-3"), b"after the copy");
    fs::remove_file(pair.source.join("004/file-4")).unwrap();
    assert_eq!(pair.narrow_night("four"), 1);
    pair.xfs.edit_image(|image| assert!(fs::copy(&copy, image).is_ok()));
    write(pair.source.join("009/file-9"), b"after it was set back");
    assert_eq!(pair.narrow_night("five"), 3);
    fs::remove_file(copy).unwrap();
    pair.end();
}

#[test]
fn a_change_on_xfs_that_a_power_cut_takes_back_after_a_run_saw_it_is_noticed() {
    let test = concat!(module_path!(), "::a_change_on_xfs_that_a_power_cut_takes_back_after_a_run_saw_it_is_noticed");
    let Some(mut pair) = Pair::new(test, "", &[]) else { return };
    fill(&pair.source, 5);
    pair.settle();
    assert_eq!(cut_power_after_a_late_change(&mut pair.xfs, &pair.source, &pair.repo), None, "it is a narrow walk");
    pair.end();
}

#[test]
fn a_filesystem_and_a_copy_of_its_device_are_not_taken_for_each_other() {
    let test = concat!(module_path!(), "::a_filesystem_and_a_copy_of_its_device_are_not_taken_for_each_other");
    let uuid = ["-m", "uuid=6f1d3c4e-2b7a-4d19-9a58-0c3b7e5f1a26"];
    let Some(pair) = Pair::new(test, "nouuid", &uuid) else { return };
    let Some(mut other) = Own::new(Kind::Xfs, test, 320, &uuid, "nouuid") else { return };
    fill(&pair.source, 20);
    let mut refresh = || {
        tools::tool("sync", &["-f"], pair.xfs.path()).expect(0);
        other.edit_image(|image| assert!(fs::copy(pair.xfs.image(), image).is_ok()));
        other.join("source")
    };
    let copied = refresh();
    let sources = [pair.source.clone(), copied.clone()];
    let take = |name: &str| {
        settle();
        let (_, recording) = take(name, &sources, &pair.repo, &Options::default());
        assert!(!has(&recording, "ChangesOnly"), "everything is looked at: {:?}", recording.events);
        sources.iter().for_each(|source| tools::assert_equal_trees(source, &inside(&pair.repo, name, source)));
    };
    ["one", "two", "three"].into_iter().for_each(take);
    write(copied.join("003/file-3"), b"only in the copy");
    take("four");
    refresh();
    take("five");
    pair.end();
}

#[test]
fn a_small_part_of_a_large_filesystem_is_walked_and_not_swept() {
    let test = concat!(module_path!(), "::a_small_part_of_a_large_filesystem_is_walked_and_not_swept");
    let Some(pair) = Pair::new(test, "", &[]) else { return };
    fill(&pair.source, 5);
    let others = pair.xfs.join("others");
    fs::create_dir(&others).unwrap();
    fill(&others, 20);
    pair.settle();
    let is_narrow = |name: &str, source: &Path| night(name, source, &pair.repo).1.is_none();
    assert!(!is_narrow("four", &pair.source));
    let all = pair.xfs.path();
    let nights = ["all-1", "all-2", "all-3", "all-4"].map(|name| is_narrow(name, all));
    assert_eq!(nights, [false, false, true, true]);
    pair.end();
}

//! On XFS a dry run foretells the freed space to the block, for trees of many shapes.

use super::Sums;
use crate::harness::own::Own;
use crate::harness::random::{Random, seed};
use crate::harness::*;
use rustix::fs::{XattrFlags, setxattr};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::Path;

/// Ways to make the filesystem.
const MKFS: [&[&str]; 4] = [&[], &["-m", "rmapbt=1"], &["-i", "size=1024"], &["-n", "size=8192"]];

fn below(random: &mut Random, end: u64) -> u64 {
    random.below(end as usize) as u64
}

/// Runs `remove` on these snapshots.
fn remove(repo: &Path, names: &[String], options: &[&str]) -> Sums {
    let names = options.iter().map(OsStr::new).chain(names.iter().map(OsStr::new));
    let fixed = [OsStr::new("remove"), "--json".as_ref(), repo.as_os_str()];
    super::sums(&pleach(fixed.into_iter().chain(names)).expect(0))
}

/// Removes these snapshots. Asserts that this frees what a dry run foretells. Returns whether the figure was exact.
#[track_caller]
fn expect_foretold(own: &mut Own, repo: &Path, names: &[String], what: &str) -> bool {
    let before = own.used();
    let foretold = remove(repo, names, &["--dry-run"]);
    let reported = remove(repo, names, &[]);
    let freed = before - own.used();
    assert!(freed > 0, "{what}");
    let difference = foretold.freed_bytes.abs_diff(freed) / shapes::BLOCK;
    match foretold.freed_is.as_str() {
        "exact" => assert_eq!(difference, 0, "{what}: foretold {foretold:?}, freed {freed}, reported {reported:?}"),
        // Only the trees of free space and of inodes may differ.
        "about" => assert!(difference <= 8, "{what}: foretold {foretold:?}, freed {freed}"),
        other => panic!("{what}: {other}"),
    }
    foretold.freed_is == "exact"
}

/// A tree with everything for which XFS takes blocks.
fn every_shape(source: &Path, random: &mut Random) {
    let put = |path: &str, length: u64| write(source.join(path), &bytes(length, length as usize));
    for dir in 0..4 {
        fs::create_dir_all(source.join(format!("{dir}/inner"))).unwrap();
        (0..20).for_each(|file| put(&format!("{dir}/inner/{file}"), below(random, 30_000)));
    }
    // A directory of several blocks.
    fs::create_dir(source.join("wide")).unwrap();
    let names = 100 + below(random, 300);
    (0..names)
        .for_each(|name| File::create(source.join(format!("wide/a-name-of-some-length-{name}"))).map(drop).unwrap());
    // Extent maps that need a block, and several.
    shapes::every_other_block(&source.join("scattered"), 30 + below(random, 100));
    let sparse = File::create(source.join("sparse")).unwrap();
    sparse.write_all_at(&bytes(3, 9000), 5 << 20).unwrap();
    sparse.set_len(64 << 20).unwrap();
    for length in [200, 3000, 30_000] {
        let path = source.join(format!("attribute-{length}"));
        write(&path, &bytes(length, 5000));
        setxattr(&path, "user.long", &bytes(length, length as usize), XattrFlags::empty()).unwrap();
    }
    fs::hard_link(source.join("0/inner/0"), source.join("linked")).unwrap();
    fs::hard_link(source.join("scattered"), source.join("linked too")).unwrap();
    symlink("x".repeat(900), source.join("long link")).unwrap();
    symlink("short", source.join("link")).unwrap();
    put("large", 3 << 20);
    clone(&source.join("large"), &source.join("tail"));
    overwrite(&source.join("tail"), 0, &bytes(9, 1 << 20));
}

/// Changes a few things.
fn change(source: &Path, random: &mut Random, round: u64) {
    for _ in 0..1 + below(random, 6) {
        let path = source.join(format!("{}/inner/{}", below(random, 4), below(random, 20)));
        write(path, &bytes(round, below(random, 60_000) as usize));
    }
    overwrite(&source.join("large"), below(random, 500) * 4096, &bytes(round, 40_000));
    overwrite(&source.join("scattered"), below(random, 20) * 8192, &bytes(round, 4096));
    if below(random, 2) == 0 {
        let attribute = bytes(round, 1000 + below(random, 20_000) as usize);
        setxattr(source.join("attribute-3000"), "user.long", &attribute, XattrFlags::empty()).unwrap();
    }
    for name in 0..below(random, 40) {
        write(source.join(format!("wide/new-{round}-{name}")), b"new");
        let _ = fs::remove_file(source.join(format!("wide/a-name-of-some-length-{}", round * 40 + name)));
    }
}

#[test]
fn xfs_frees_what_a_dry_run_foretold_to_the_block() {
    let test = concat!(module_path!(), "::xfs_frees_what_a_dry_run_foretold_to_the_block");
    let seed = seed();
    let mut exact = 0;
    for (number, mkfs) in MKFS.iter().enumerate() {
        let mut random = Random(seed + number as u64);
        let Some(mut own) = Own::new(Kind::Xfs, test, 1024, mkfs, "") else { return };
        let (source, repo) = (own.join("source"), own.join("repo"));
        fs::create_dir(&source).unwrap();
        every_shape(&source, &mut random);
        let mut names = Vec::new();
        for round in 0..6 {
            change(&source, &mut random, round);
            settle();
            names.push(format!("s{round}"));
            pleach(snapshot_named(&names[round as usize], &source, &repo)).expect(0);
        }
        if below(&mut random, 2) == 0 {
            fs::remove_dir_all(&source).unwrap();
        }
        let what = |names: &[String]| format!("PLEACH_TEST_SEED={seed} {mkfs:?} {names:?}");
        // One, some of the others, and the rest but one.
        let one = names.remove(below(&mut random, 6) as usize);
        let some: Vec<String> = names.drain(1..3).collect();
        names.pop();
        for set in [vec![one], some, names] {
            exact += u32::from(expect_foretold(&mut own, &repo, &set, &what(&set)));
        }
        own.assert_clean();
    }
    assert!(exact >= 8, "most figures of small trees are exact: {exact} of 12");
}

#[test]
fn directories_of_a_repository_shrink_as_foretold() {
    let test = concat!(module_path!(), "::directories_of_a_repository_shrink_as_foretold");
    let seed = seed();
    for (number, mkfs) in MKFS.iter().enumerate() {
        let mut random = Random(seed + number as u64);
        let Some(mut own) = Own::new(Kind::Xfs, test, 512, mkfs, "") else { return };
        let (source, repo) = (own.join("source"), own.join("repo"));
        fs::create_dir(&source).unwrap();
        // With such names, entries need several blocks.
        let mut names: Vec<String> = (0..50).map(|name| format!("{name:02}-{}", "x".repeat(160 + name))).collect();
        for name in &names {
            write(source.join("file"), name.as_bytes());
            settle();
            pleach(snapshot_named(name, &source, &repo)).expect(0);
        }
        while names.len() > 1 {
            // Some of the oldest, or any.
            let count = 1 + below(&mut random, names.len() as u64 - 1).min(20);
            let is_any = below(&mut random, 2) == 0;
            let going: Vec<String> = (0..count)
                .map(|_| names.remove(if is_any { below(&mut random, names.len() as u64) as usize } else { 0 }))
                .collect();
            let what = format!("PLEACH_TEST_SEED={seed} {mkfs:?}, {} left", names.len());
            assert!(expect_foretold(&mut own, &repo, &going, &what), "{what}: not exact");
        }
        own.assert_clean();
    }
}

#[test]
fn a_replica_and_the_newest_snapshot_free_what_a_dry_run_foretold() {
    let test = concat!(module_path!(), "::a_replica_and_the_newest_snapshot_free_what_a_dry_run_foretold");
    let Some(mut own) = Own::new(Kind::Xfs, test, 512, &[], "") else { return };
    let (source, repo, replica) = (own.join("source"), own.join("repo"), own.join("replica"));
    fs::create_dir(&source).unwrap();
    for name in ["one", "two", "three"] {
        write(source.join("file"), name.as_bytes());
        settle();
        pleach(snapshot_named(name, &source, &repo)).expect(0);
    }
    pleach([OsStr::new("replicate"), repo.as_os_str(), replica.as_os_str()]).expect(0);
    for (repo, name) in [(&repo, "three"), (&replica, "one"), (&replica, "three")] {
        assert!(expect_foretold(&mut own, repo, &[name.into()], name), "{} of {} is not exact", name, repo.display());
    }
    own.assert_clean();
}

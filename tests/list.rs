//! Listing what a snapshot alone holds: from extents, and only what no other file holds.

use crate::harness::{bytes, settle, snapshot, write};
use crate::on_filesystems;
use pleach::monitor::Silent;
use pleach::snapshot::list::{Options, list};
use std::fs;
use std::path::Path;

const SIZE: u64 = 1 << 20;

fn exclusive(repo: &Path) -> Vec<Option<u64>> {
    rustix::fs::syncfs(fs::File::open(repo).unwrap()).unwrap();
    let stats = list(repo, &Options { exclusive: true, threads: Some(2) }, &Silent).unwrap();
    assert_eq!(stats.errors, 0);
    stats.rows.iter().map(|row| row.exclusive_bytes).collect()
}

/// Waits until the snapshots alone hold this much: XFS takes deleted files apart in the background.
#[track_caller]
fn expect_exclusive(repo: &Path, expected: &[u64], why: &str) {
    let expected: Vec<_> = expected.iter().copied().map(Some).collect();
    for _ in 0..500 {
        if exclusive(repo) == expected {
            return;
        }
        settle();
    }
    assert_eq!(exclusive(repo), expected, "{why}");
}

on_filesystems! {
    [xfs, btrfs] fn exclusive_bytes_are_those_of_no_other_file(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("stays"), &bytes(1, SIZE as usize));
        write(source.join("goes"), &bytes(2, SIZE as usize));
        fs::hard_link(source.join("goes"), source.join("goes too")).unwrap();
        snapshot(&source, &repo);
        expect_exclusive(&repo, &[0], "the source holds all of it");
        fs::remove_file(source.join("goes")).unwrap();
        fs::remove_file(source.join("goes too")).unwrap();
        expect_exclusive(&repo, &[SIZE], "a hard link counts once");
        settle();
        snapshot(&source, &repo);
        expect_exclusive(&repo, &[SIZE, 0], "the second shares with the source");
        fs::remove_dir_all(&source).unwrap();
        expect_exclusive(&repo, &[SIZE, 0], "the snapshots hold the rest together");
    }

    fn a_list_without_measuring_says_nothing_of_it(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        write(source.join("file"), &bytes(1, 5000));
        snapshot(&source, &repo);
        let stats = list(&repo, &Options::default(), &Silent).unwrap();
        assert_eq!(stats.rows.len(), 1);
        assert_eq!((stats.rows[0].exclusive_bytes, stats.rows[0].info.totals.files), (None, 1));
    }
}

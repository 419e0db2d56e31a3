//! Manifests with damaged blocks, altered content, snapshots that are gone.

use super::*;
use crate::harness::manifests::{edit, manifest};
use pleach::testing::manifest::{Body, Item};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// Alters a byte in the middle of the blocks.
fn damage_a_block(repo: &Path, name: &str) {
    let path = manifest(repo, name);
    let at = fs::metadata(&path).unwrap().len() / 3;
    let mut byte = [0];
    File::open(&path).unwrap().read_exact_at(&mut byte, at).unwrap();
    overwrite(&path, at, &[byte[0] ^ 1]);
}

/// Three snapshots of 4,500 files. A block in the manifest of `two` is damaged. Returns the source and the repository.
pub(crate) fn snapshots_of_which_two_is_damaged(fs: &Filesystem) -> (PathBuf, PathBuf) {
    let (source, repo) = (fs.dir("source"), fs.join("repo"));
    for dir in ["a", "b", "c"] {
        fs::create_dir(source.join(dir)).unwrap();
        tree::crowded(&source.join(dir), 1500);
    }
    for name in ["one", "two", "three"] {
        take(name, &source, &repo);
    }
    damage_a_block(&repo, "two");
    (source, repo)
}

on_filesystems! {
    [xfs] fn content_that_differs_under_equal_metadata_is_damage(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        settle();
        take("one", &source, &repo);
        take("two", &source, &repo);
        edit(&repo, "two", |_, items, _| {
            for item in items {
                if let Item::Entry(entry) = item
                    && entry.name == b"two"
                    && let Body::File(file) = &mut entry.body
                {
                    file.hash = Some([7; 32]);
                }
            }
        });
        let run = compare(&repo, "one", "two", &["--json".as_ref()]).expect(0);
        assert_eq!((summary(&run).rotten, summary(&run).content), (1, 0));
        let text = compare(&repo, "one", "two", &[]).expect(0);
        assert_eq!(lines(&text, &source), ["? c/two"]);
    }

    [xfs] fn entries_in_a_damaged_block_are_neither_added_nor_removed(fs: &Filesystem) {
        for side in ["one", "two"] {
            let (source, repo) = (fs.dir(format!("source {side}")), fs.join(format!("repo {side}")));
            for dir in ["first", "middle", "zlast"] {
                fs::create_dir(source.join(dir)).unwrap();
                tree::crowded(&source.join(dir), 1500);
            }
            take("one", &source, &repo);
            write(source.join("first/000"), b"new");
            fs::remove_file(source.join("zlast/file-001499")).unwrap();
            take("two", &source, &repo);
            let whole = summary(&compare(&repo, "one", "two", &["--json".as_ref()]).expect(0));
            assert_eq!((whole.added, whole.removed, whole.content), (1, 1, 0));
            damage_a_block(&repo, side);
            let run = compare(&repo, "one", "two", &["--json".as_ref()]).expect(3).saying("its checksum is wrong");
            let found = summary(&run);
            assert_eq!((found.added, found.removed, found.content, found.errors), (1, 1, 0, 1), "{side}");
            if side == "one" {
                let live = compare(&repo, "one", "live", &["--json".as_ref()]).expect(3);
                assert_eq!((summary(&live).added, summary(&live).removed), (1, 1));
            }
        }
    }

    [xfs, btrfs] fn a_snapshot_without_its_tree_or_with_a_damaged_end_is_refused_plainly(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        take("one", &source, &repo);
        take("two", &source, &repo);
        tools::delete_snapshot(&repo.join("one"));
        compare(&repo, "one", "two", &[]).expect(1).saying("cannot find a snapshot 'one'");
        let path = manifest(&repo, "two");
        let length = fs::metadata(&path).unwrap().len();
        File::options().write(true).open(&path).unwrap().set_len(length - 1).unwrap();
        compare(&repo, "two", "live", &[]).expect(4).saying("manifests/two");
    }
}

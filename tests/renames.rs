//! `pleach snapshot` of files that were renamed, moved or copied on another filesystem: they are found by their content
//! in the last snapshot, and not written again.

use crate::harness::*;
use crate::on_filesystems;
use pleach::testing::manifest::{Item, Reader};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

/// Larger than the part held in memory, so that more than one code path runs.
const LARGE: usize = 3 << 20;

/// A large file, a middle one and a small one.
fn files(dir: &Path) -> u64 {
    let sizes = [LARGE, 100_000, 5000];
    for (name, size) in ["large", "middle", "small"].iter().zip(sizes) {
        write(dir.join(name), &bytes(size as u64, size));
    }
    sizes.iter().sum::<usize>() as u64
}

/// Asserts that nothing was copied, and that at most this many bytes were read.
#[track_caller]
fn assert_found(summary: &serde_json::Value, at_most_read: u64) {
    assert_eq!(number(summary, "copied_bytes"), 0, "{summary}");
    assert_eq!(number(summary, "errors"), 0, "{summary}");
    assert!(number(summary, "read_bytes") <= at_most_read, "at most {at_most_read} read: {summary}");
    assert_eq!(summary["sharing_percent"].as_f64(), Some(100.0), "{summary}");
}

on_filesystems! {
    [xfs, btrfs] fn renamed_files_from_elsewhere_are_read_once_and_not_written(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        let bytes = files(&source);
        snapshot(&source, &repo);
        let first = inside(&repo, &published(&repo)[0], &source);
        fs::create_dir(source.join("new")).unwrap();
        for name in ["large", "middle", "small"] {
            fs::rename(source.join(name), source.join("new").join(format!("{name} too"))).unwrap();
        }
        let second = snapshot(&source, &repo);
        // Six blocks of the large file and its version are read to see whether a full comparison is worthwhile.
        assert_found(&second, bytes + 6 * 4096);
        assert_eq!((number(&second, "renamed_files"), number(&second, "new_files")), (3, 0), "{second}");
        let copy = inside(&repo, "latest", &source);
        tools::assert_equal_trees(&source, &copy);
        for name in ["large", "middle", "small"] {
            tools::assert_same_blocks(&first.join(name), &copy.join("new").join(format!("{name} too")));
        }
        let third = snapshot(&source, &repo);
        assert_eq!((number(&third, "unchanged_files"), number(&third, "read_bytes")), (3, 0), "{third}");
    }

    [xfs, btrfs] fn copies_made_elsewhere_share_with_the_original(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        let bytes = files(&source);
        snapshot(&source, &repo);
        for name in ["large", "middle", "small"] {
            let content = fs::read(source.join(name)).unwrap();
            write(source.join(format!("copy of {name}")), &content);
            write(source.join(format!("another copy of {name}")), &content);
        }
        let second = snapshot(&source, &repo);
        assert_found(&second, 2 * (bytes + 6 * 4096));
        assert_eq!(number(&second, "new_files"), 6, "{second}");
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }

    [xfs, btrfs] fn files_moved_with_their_directory_are_not_even_read(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        let deep = source.join("a/b");
        fs::create_dir_all(&deep).unwrap();
        files(&deep);
        let huge = File::create(deep.join("huge")).unwrap();
        huge.set_len(64 << 30).unwrap();
        huge.write_all_at(&bytes(9, 70_000), 40 << 30).unwrap();
        drop(huge);
        settle();
        // Hashing 64 GiB of zeros would take long.
        let mut args = snapshot_named("first", &source, &repo).to_vec();
        args.extend([OsStr::new("--hash"), OsStr::new("none")]);
        pleach(args).expect(0);
        fs::rename(source.join("a"), source.join("z")).unwrap();
        let second = snapshot(&source, &repo);
        assert_found(&second, 0);
        assert_eq!((number(&second, "renamed_files"), number(&second, "removed_files")), (4, 0), "{second}");
        let copy = inside(&repo, "latest", &source).join("z/b");
        for name in ["large", "middle", "small", "huge"] {
            tools::assert_same_blocks(&inside(&repo, "first", &source).join("a/b").join(name), &copy.join(name));
        }
        assert_eq!(fs::metadata(copy.join("huge")).unwrap().len(), 64 << 30);
    }

    [xfs, btrfs] fn files_moved_with_their_directory_on_one_filesystem_keep_their_hashes(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        fs::create_dir(source.join("a")).unwrap();
        files(&source.join("a"));
        snapshot(&source, &repo);
        fs::rename(source.join("a"), source.join("z")).unwrap();
        write(source.join("new"), &bytes(5, 10_000));
        assert_found(&snapshot(&source, &repo), 10_000);
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
        let name = fs::read_link(repo.join("latest")).unwrap();
        let manifest = Reader::open(&repo.join(".pleach/manifests").join(name)).unwrap();
        let hashed = manifest.items().filter_map(|item| match item.unwrap() {
            Item::Entry(entry) => entry.file().and_then(|file| file.hash),
            Item::Directory(_) => None,
        });
        let expected = ["new", "z/large", "z/middle", "z/small"]
            .map(|name| *blake3::hash(&fs::read(source.join(name)).unwrap()).as_bytes());
        assert_eq!(hashed.collect::<Vec<_>>(), expected);
    }

    [xfs] fn a_renamed_file_has_the_metadata_that_it_has_now(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        files(&source);
        finish(Command::new("setfattr").args(["-n", "user.old", "-v", "1"]).arg(source.join("large"))).expect(0);
        snapshot(&source, &repo);
        for name in ["large", "middle", "small"] {
            let path = source.join(format!("{name} too"));
            fs::rename(source.join(name), &path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o2751)).unwrap();
            finish(Command::new("setfattr").args(["-n", "user.new", "-v", "2"]).arg(&path)).expect(0);
            tree::set_mtime(&path, 1_234_567_890, 12_345);
        }
        finish(Command::new("setfattr").args(["-x", "user.old"]).arg(source.join("large too"))).expect(0);
        assert_found(&snapshot(&source, &repo), u64::MAX);
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }

    [xfs] fn other_content_of_the_same_size_is_copied(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        let old = files(&source);
        snapshot(&source, &repo);
        for (number, size) in [LARGE, 100_000, 5000].into_iter().enumerate() {
            write(source.join(format!("new {number}")), &bytes(77 + number as u64, size));
        }
        let second = snapshot(&source, &repo);
        assert_eq!(number(&second, "copied_bytes"), old, "{second}");
        // The small files once; of the large file, and the other file of its size, only a few blocks more.
        assert!(number(&second, "read_bytes") <= old + 6 * 4096, "{second}");
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }

    [xfs] fn a_copy_with_other_holes_keeps_its_own(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        let sparse = |name: &str| {
            let file = File::create(source.join(name)).unwrap();
            file.set_len(5 << 20).unwrap();
            file.write_all_at(&bytes(3, 70_000), 2 << 20).unwrap();
            // Delayed allocation may count as more blocks than were written.
            file.sync_all().unwrap();
            file
        };
        sparse("sparse");
        snapshot(&source, &repo);
        fs::rename(source.join("sparse"), source.join("renamed")).unwrap();
        let full = sparse("full");
        full.write_all_at(&[0; 1 << 20], 0).unwrap();
        full.sync_all().unwrap();
        let second = snapshot(&source, &repo);
        assert_eq!(number(&second, "copied_bytes"), (1 << 20) + 73_728, "{second}");
        let copy = inside(&repo, "latest", &source);
        // XFS may have reserved a little more than was written.
        let on_disk = |name: &str| fs::metadata(copy.join(name)).unwrap().blocks() * 512;
        assert!(on_disk("renamed") < 1 << 20, "the renamed file has its holes");
        assert!(on_disk("full") > 1 << 20, "zeros that were written are there");
        tools::assert_equal_trees(&source, &copy);
    }

    [xfs] fn a_version_that_was_altered_in_the_last_snapshot_is_not_used(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        let all = files(&source);
        snapshot(&source, &repo);
        let first = inside(&repo, &published(&repo)[0], &source);
        for name in ["large", "middle", "small"] {
            overwrite(&first.join(name), 10, b"altered");
            fs::rename(source.join(name), source.join(format!("{name} too"))).unwrap();
        }
        let second = snapshot(&source, &repo);
        assert_eq!(number(&second, "copied_bytes"), all, "{second}");
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }

    [xfs] fn without_hashes_renamed_files_are_copied(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, repo) = (other.dir("source"), fs.join("repo"));
        let all = files(&source);
        settle();
        for name in ["one", "two"] {
            let mut args = snapshot_named(name, &source, &repo).to_vec();
            args.extend([OsStr::new("--hash"), OsStr::new("none")]);
            let summary = pleach(args).expect(0).summary();
            assert_eq!(number(&summary, "copied_bytes"), all, "{summary}");
            for name in fs::read_dir(&source).unwrap().map(|entry| entry.unwrap().path()) {
                fs::rename(&name, name.with_extension("renamed")).unwrap();
            }
        }
    }
}

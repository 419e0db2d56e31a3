//! Each kind of change between two snapshots reaches the store, however small it is.

use super::lines::{PushSums, sums};
use super::stores::{Backend, Store};
use super::{below, in_store, take};
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A change of the tree of [`tree::plain`], which keeps the number of entries and their sizes unless it has to.
type Change = (&'static str, fn(&Path));

/// Overwrites a file, and sets its time of modification back.
fn rewrite(path: &Path) {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    overwrite(path, 7, b"other content");
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Exchanges two names.
fn exchange(dir: &Path, one: &str, two: &str) {
    fs::rename(dir.join(one), dir.join("aside")).unwrap();
    fs::rename(dir.join(two), dir.join(one)).unwrap();
    fs::rename(dir.join("aside"), dir.join(two)).unwrap();
}

fn replace_link(path: &Path, target: &str) {
    fs::remove_file(path).unwrap();
    symlink(target, path).unwrap();
}

fn attribute(path: &Path, value: &str) {
    finish(Command::new("setfattr").args(["-n", "user.note", "-v", value]).arg(path)).expect(0);
}

const CHANGES: &[Change] = &[
    ("content", |dir| rewrite(&dir.join("a"))),
    ("content-of-a-link", |dir| rewrite(&dir.join("hard"))),
    ("names", |dir| exchange(dir, "a", "b")),
    ("directories", |dir| exchange(dir, "c/d", "c/e")),
    ("mode", |dir| fs::set_permissions(dir.join("c"), fs::Permissions::from_mode(0o711)).unwrap()),
    ("owner", |dir| lchown(dir.join("b"), Some(77), Some(88)).unwrap()),
    ("time", |dir| tree::set_mtime(&dir.join("b"), 1_234_567_890, 5)),
    ("attribute", |dir| attribute(&dir.join("a"), "one")),
    ("attribute-again", |dir| attribute(&dir.join("a"), "two")),
    ("link", |dir| replace_link(&dir.join("link"), "b")),
    ("kind", |dir| {
        fs::remove_file(dir.join("empty")).unwrap();
        fs::create_dir(dir.join("empty")).unwrap();
    }),
    ("hard-link", |dir| {
        fs::remove_file(dir.join("hard")).unwrap();
        fs::hard_link(dir.join("b"), dir.join("hard")).unwrap();
    }),
    ("nothing", |_| ()),
];

on_filesystems! {
    [xfs, btrfs] fn each_kind_of_change_reaches_the_store(fs: &Filesystem) {
        let (source, repo, store) = (fs.dir("source"), fs.join("repo"), Store::made(fs, Backend::Local));
        tree::plain(&source);
        fs.dir("source/c/e");
        write(source.join("c/e/three"), &bytes(50, 210_000));
        write(source.join("empty"), b"");
        fs::hard_link(source.join("a"), source.join("hard")).unwrap();
        symlink("a", source.join("link")).unwrap();
        take("first", &source, &repo);
        store.push(&repo);
        for (name, change) in CHANGES {
            change(&source);
            take(name, &source, &repo);
            let sent: PushSums = sums(&store.push(&repo));
            assert_eq!(sent.snapshots, 1, "{name}");
            let restored = below(&store.restic_restores("latest", fs.join(format!("restored {name}"))), &source);
            let differences = tools::differences(&source, &restored);
            assert!(differences.is_empty(), "after the change of {name}:\n{differences}");
        }
        store.assert_sound();
    }

    [xfs, btrfs] fn a_file_that_took_the_place_of_another_is_read_though_all_times_are_equal(fs: &Filesystem) {
        let (source, repo, store) = (fs.dir("source"), fs.join("repo"), Store::made(fs, Backend::Local));
        let files = ["one", "two"].map(|dir| fs.dir(Path::new("source").join(dir)).join("file"));
        let change_time = |file: &PathBuf| {
            let meta = fs::metadata(file).unwrap();
            (meta.ctime(), meta.ctime_nsec())
        };
        // Both changes have to fall into one tick of the clock. A file that has been looked at gets a finer time, so
        // each attempt makes new ones.
        loop {
            for (number, file) in files.iter().enumerate() {
                let _ = fs::remove_file(file);
                write(file, &bytes(number as u64, 50_000));
            }
            files.iter().for_each(|file| tree::set_mtime(file, 1_234_567_890, 5));
            if change_time(&files[0]) == change_time(&files[1]) {
                break;
            }
        }
        take("one", &source, &repo);
        store.push(&repo);
        exchange(&source, "one", "two");
        assert_eq!(change_time(&files[0]), change_time(&files[1]));
        take("two", &source, &repo);
        store.push(&repo);
        tools::assert_equal_trees(&source, &below(&store.restores("two", fs.join("to")), &source));
    }

    [xfs] fn a_name_that_is_used_again_is_another_snapshot(fs: &Filesystem) {
        let (source, repo, store) = (fs.dir("source"), fs.join("repo"), Store::made(fs, Backend::Local));
        tree::plain(&source);
        take("one", &source, &repo);
        store.push(&repo);
        pleach([OsStr::new("remove"), "-q".as_ref(), repo.as_ref(), "one".as_ref()]).expect(0);
        rewrite(&source.join("b"));
        take("one", &source, &repo);
        let sent: PushSums = sums(&store.push(&repo));
        assert_eq!((sent.snapshots, sent.errors), (1, 0), "{sent:?}");
        assert_eq!(in_store(&store).len(), 2);
        let restored = below(&store.restores("latest", fs.join("to")), &source);
        tools::assert_equal_trees(&source, &restored);
    }

    [xfs] fn a_file_that_one_push_lost_is_in_the_next(fs: &Filesystem) {
        let (source, repo, store) = (fs.dir("source"), fs.join("repo"), Store::made(fs, Backend::Local));
        tree::plain(&source);
        take("one", &source, &repo);
        take("two", &source, &repo);
        fs::remove_file(inside(&repo, "one", &source).join("b")).unwrap();
        store.run("push", &[repo.as_ref(), "one".as_ref()]).expect(4);
        // The first one still lacks the file in the store.
        let sent: PushSums = sums(&store.run("push", &[repo.as_ref()]).expect(3));
        assert_eq!((sent.snapshots, sent.errors), (1, 1), "{sent:?}");
        let restored = below(&store.restores("two", fs.join("to")), &source);
        tools::assert_equal_trees(&source, &restored);
        store.assert_sound();
    }

    [xfs] fn a_push_after_a_prune_needs_nothing_that_is_gone(fs: &Filesystem) {
        let (source, repo, store) = (fs.dir("source"), fs.join("repo"), Store::made(fs, Backend::Local));
        tree::plain(&source);
        for name in ["one", "two", "three"] {
            take(name, &source, &repo);
        }
        store.run("push", &[repo.as_ref(), "one".as_ref(), "two".as_ref()]).expect(0);
        store.run("prune", &["--now".as_ref(), "--keep-last".as_ref(), "1".as_ref()]).expect(0);
        // restic's own hand removes the last one, with all data.
        store.restic(&["forget".as_ref(), "--prune".as_ref(), "latest".as_ref()]).expect(0);
        assert_eq!(in_store(&store), [""; 0]);
        let sent: PushSums = sums(&store.run("push", &[repo.as_ref(), "three".as_ref()]).expect(0));
        assert_eq!((sent.snapshots, sent.errors), (1, 0), "{sent:?}");
        store.assert_sound();
        tools::assert_equal_trees(&source, &below(&store.restores("three", fs.join("to")), &source));
    }
}

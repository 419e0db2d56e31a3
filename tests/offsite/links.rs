//! A restore from a store meets symbolic links: none leads it out of the target.

use super::stores::{Backend, Store};
use super::{below, library, take};
use crate::harness::json_lines::Problem;
use crate::harness::*;
use crate::on_filesystems;
use rustic_core::repofile::{Metadata, Node, NodeType};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// A directory outside of the target, with a file of each of these names.
fn outside(fs: &Filesystem, names: &[&str]) -> PathBuf {
    let outside = fs.dir("outside");
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o700)).unwrap();
    for name in names {
        write(outside.join(name), b"private");
        fs::set_permissions(outside.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    outside
}

/// Everything that a restore could change outside, a line for each entry.
fn state(outside: &Path) -> Vec<String> {
    let of = |name: String| {
        let path = outside.join(&name);
        let found = fs::symlink_metadata(&path).unwrap();
        let (mode, owner, changed) = (found.mode(), found.uid(), found.ctime_nsec());
        format!("{name} {mode} {owner} {} {changed} {:?}", found.mtime(), fs::read(path).ok())
    };
    let names = names(outside);
    names.into_iter().chain([String::new()]).map(of).collect()
}

/// The paths that a run has errors of.
fn paths(run: &Run) -> Vec<PathBuf> {
    let mut paths: Vec<_> = run.lines::<Problem>().into_iter().filter_map(|problem| problem.path).collect();
    paths.sort();
    paths.into_iter().map(PathBuf::from).collect()
}

on_filesystems! {
    [xfs] fn the_second_entry_of_a_name_is_damage_and_writes_through_no_link(fs: &Filesystem) {
        let outside = outside(fs, &["victim", "inner"]);
        let store = Store::made(fs, Backend::Local);
        let node = |name: &str, kind, mode| {
            let size = if kind == NodeType::File { 4 } else { 0 };
            let meta = Metadata { mode: Some(mode), size, links: 1, uid: Some(0), gid: Some(0), ..Metadata::default() };
            Node::new_node(Path::new(name).file_name().unwrap(), kind, meta)
        };
        let file = |path: &str, mode| (PathBuf::from(path), node(path, NodeType::File, mode), Some(&b"evil"[..]));
        let dir = |path: &str| (PathBuf::from(path), node(path, NodeType::Dir, 0o777 | 1 << 31), None);
        let link = |path: &str, to: PathBuf| {
            (PathBuf::from(path), node(path, NodeType::from_link(&to), 0o777 | 1 << 27), None)
        };
        let entries = vec![
            file("/a", 0o644),
            link("/d", outside.clone()),
            dir("/d"),
            file("/d/inner", 0o777 | 1 << 23),
            link("/p", outside.join("victim")),
            file("/p", 0o777 | 1 << 23),
        ];
        library::forge(&store, "one", entries);
        let (before, to) = (state(&outside), fs.join("to"));
        let run = store.run("restore", &["--target".as_ref(), to.as_ref()]).expect(4);
        assert_eq!(state(&outside), before);
        assert_eq!(paths(&run), [to.join("d"), to.join("p")], "{run:?}");
        run.saying("two entries have the same name");
        assert_eq!(names(&to), ["a", "d", "p"]);
        assert_eq!(fs::read(to.join("a")).unwrap(), b"evil");
        assert_eq!(fs::read_link(to.join("p")).unwrap(), outside.join("victim"));
        assert_eq!(fs::read_link(to.join("d")).unwrap(), outside);
        let args = ["--target".as_ref(), to.as_os_str(), "one".as_ref(), "/p".as_ref()];
        store.run("restore", &args).expect(4).saying("two entries have the same name");
        assert_eq!(state(&outside), before);
    }

    [xfs] fn a_link_in_the_place_of_a_directory_is_not_followed(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        take("one", &source, &repo);
        let store = Store::made(fs, Backend::Local);
        store.push(&repo);
        let outside = outside(fs, &["one", "other"]);
        let (before, to) = (state(&outside), fs.join("to"));
        let restored = below(&to, &source);
        fs::create_dir_all(&restored).unwrap();
        symlink(&outside, restored.join("c")).unwrap();
        for option in [&["--dry-run".as_ref()][..], &[]] {
            let run = store.run("restore", &[&["--target".as_ref(), to.as_os_str()], option].concat()).expect(3);
            assert_eq!(paths(&run), [restored.join("c")], "{run:?}");
            assert_eq!(state(&outside), before);
        }
        // Nor on the way to a part.
        let part = source.join("c/one");
        let run = store.run("restore", &["--target".as_ref(), to.as_ref(), "one".as_ref(), part.as_ref()]).expect(3);
        assert_eq!(paths(&run), [restored.join("c")], "{run:?}");
        assert_eq!(state(&outside), before);
        for name in ["a", "b"] {
            assert_eq!(fs::read(restored.join(name)).unwrap(), fs::read(source.join(name)).unwrap());
        }
        fs::remove_file(restored.join("c")).unwrap();
        store.run("restore", &["--target".as_ref(), to.as_ref()]).expect(0);
        tools::assert_equal_trees(&source, &restored);
    }

    [xfs] fn metadata_is_set_on_nothing_of_another_type(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        for path in ["a", "c", "c/one"] {
            fs::set_permissions(source.join(path), fs::Permissions::from_mode(0o777)).unwrap();
        }
        take("one", &source, &repo);
        let store = Store::made(fs, Backend::Local);
        store.push(&repo);
        let outside = outside(fs, &["a", "one", "two"]);
        let (before, to) = (state(&outside), fs.join("to"));
        let restored = below(&to, &source);
        // The sync comes after all content, and before all metadata.
        let mut strace = store.program("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=syncfs"]);
        strace.args(["-e", "inject=syncfs:delay_enter=4000000:when=1"]);
        strace.args([env!("CARGO_BIN_EXE_pleach"), "offsite", "restore", "--json", "--to", &store.url, "--target"]);
        let child = running::begin(strace.arg(&to));
        let is_there = |name: &str| fs::read(restored.join(name)).ok() == fs::read(source.join(name)).ok();
        running::await_that("the content is there", || ["a", "b", "c/one", "c/two"].into_iter().all(is_there));
        thread::sleep(Duration::from_secs(1));
        fs::remove_file(restored.join("a")).unwrap();
        symlink(outside.join("a"), restored.join("a")).unwrap();
        fs::rename(restored.join("c"), restored.join("moved")).unwrap();
        symlink(&outside, restored.join("c")).unwrap();
        let run = running::end(child).expect(3);
        assert_eq!(state(&outside), before);
        assert_eq!(paths(&run), [restored.join("a"), restored.join("c")], "{run:?}");
        let mode = |path: PathBuf| fs::metadata(path).unwrap().mode();
        assert_eq!(mode(restored.join("b")), mode(source.join("b")));
    }
}

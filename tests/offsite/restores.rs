//! A restore into a target that does not take every entry: the others come back, and each one is named.

use super::lines::{RestoreSums, sums};
use super::stores::{Backend, Store};
use super::{below, take};
use crate::harness::failing_disk::FailingDisk;
use crate::harness::json_lines::Problem;
use crate::harness::*;
use crate::on_filesystems;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

/// A tree with files, links and directories, and a store with a snapshot of it.
fn scene(fs: &Filesystem) -> (PathBuf, Store) {
    let (source, repo) = (fs.dir("source"), fs.join("repo"));
    tree::plain(&source);
    fs::create_dir_all(source.join("bare/inner")).unwrap();
    symlink("a", source.join("symlink")).unwrap();
    write(source.join("first"), &bytes(60, 50_000));
    fs::hard_link(source.join("first"), source.join("second")).unwrap();
    take("one", &source, &repo);
    let store = Store::made(fs, Backend::Local);
    store.push(&repo);
    (source, store)
}

/// The names below the restored source that a run has errors of.
#[track_caller]
fn named(run: &Run, restored: &Path) -> BTreeSet<String> {
    let problems = run.lines::<Problem>();
    let paths = problems.iter().map(|problem| Path::new(problem.path.as_ref().expect("an error has a path")));
    paths.map(|path| path.strip_prefix(restored).expect("below the target").to_str().unwrap().to_string()).collect()
}

/// The differences of two trees for rsync, without these names.
fn differences_except(original: &Path, copy: &Path, names: &[&str]) -> Vec<String> {
    let differences = tools::differences(original, copy);
    let others = differences.lines().filter(|line| !names.iter().any(|name| line.contains(name)));
    others.map(String::from).collect()
}

on_filesystems! {
    [xfs, btrfs] fn an_obstacle_costs_only_itself_and_a_dry_run_knows(fs: &Filesystem) {
        let (source, store) = scene(fs);
        let to = fs.join("to");
        let restored = below(&store.restores("one", to.clone()), &source);
        // A file, and a directory with something in it, in the way of the other kind.
        fs::remove_dir_all(restored.join("bare")).unwrap();
        write(restored.join("bare"), b"a file");
        fs::remove_file(restored.join("b")).unwrap();
        fs::create_dir_all(restored.join("b/inner")).unwrap();
        fs::remove_file(restored.join("symlink")).unwrap();
        fs::create_dir(restored.join("symlink")).unwrap();
        fs::remove_file(restored.join("second")).unwrap();
        fs::create_dir(restored.join("second")).unwrap();
        // A link in the way of a file, and a file that differs.
        fs::remove_file(restored.join("a")).unwrap();
        symlink("/dev/null", restored.join("a")).unwrap();
        write(restored.join("c/two"), b"another content");
        // A file and a directory that nobody changes.
        write(restored.join("c/one"), b"unlike");
        fs::remove_file(restored.join("c/d/three")).unwrap();
        tools::tool("chattr", &["+i"], &restored.join("c/one"));
        tools::tool("chattr", &["+i"], &restored.join("c/d"));
        let args = ["--target".as_ref(), to.as_os_str()];
        let before = tools::inventory(&restored);
        let dry = store.run("restore", &[&args[..], &["--dry-run".as_ref()]].concat()).expect(3);
        assert_eq!(before, tools::inventory(&restored), "a dry run changes nothing");
        let run = store.run("restore", &args).expect(3);
        tools::tool("chattr", &["-i"], &restored.join("c/one"));
        tools::tool("chattr", &["-i"], &restored.join("c/d"));
        let expected = ["b", "c/d/three", "c/one", "second", "symlink"];
        assert_eq!(named(&dry, &restored), expected.map(String::from).into());
        // The metadata of the directory cannot be set either; the library names no path of its own kind.
        let problems = run.lines::<Problem>();
        for name in expected {
            let path = restored.join(name);
            assert!(problems.iter().any(|problem| problem.path.as_deref() == path.to_str()), "{name}: {problems:?}");
        }
        let (dry, done): (RestoreSums, RestoreSums) = (sums(&dry), sums(&run));
        assert_eq!((dry.files, dry.restored_bytes, dry.dirs), (done.files, done.restored_bytes, done.dirs));
        assert_eq!((done.files, done.dirs), (2, 2), "{done:?}");
        assert_eq!(fs::read(restored.join("c/one")).unwrap(), b"unlike");
        let names = ["b", "c/d", "c/one", "second", "symlink"];
        let others = differences_except(&source, &restored, &names);
        assert!(others.is_empty(), "{others:?}");
        assert!(restored.join("bare/inner").is_dir());
        assert_eq!(fs::read(restored.join("c/two")).unwrap(), fs::read(source.join("c/two")).unwrap());
        assert_eq!(fs::read(restored.join("a")).unwrap(), fs::read(source.join("a")).unwrap());
    }

    [xfs] fn a_path_that_the_target_cannot_have_costs_only_itself(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        tree::plain(&source);
        tree::deeper_than_path_max(&fs.dir("source/m"));
        take("one", &source, &repo);
        let store = Store::made(fs, Backend::Local);
        store.push(&repo);
        let to = fs.join("to");
        let args = ["--target".as_ref(), to.as_os_str()];
        let restored = below(&to, &source);
        let dry = store.run("restore", &[&args[..], &["--dry-run".as_ref()]].concat()).expect(3);
        let run = store.run("restore", &args).expect(3);
        let [problem] = &run.lines::<Problem>()[..] else { panic!("{run:?}") };
        assert!(problem.code == "name-too-long", "{problem:?}");
        assert!(problem.path.as_deref().is_some_and(|path| path.starts_with(restored.join("m").to_str().unwrap())));
        assert_eq!(named(&dry, &restored), named(&run, &restored));
        let (dry, done): (RestoreSums, RestoreSums) = (sums(&dry), sums(&run));
        assert_eq!((dry.files, dry.dirs, dry.errors), (done.files, done.dirs, done.errors));
        assert_eq!(done.files, 5, "{done:?}");
        for name in ["a", "b", "c/one", "c/two", "c/d/three"] {
            assert_eq!(fs::read(source.join(name)).unwrap(), fs::read(restored.join(name)).unwrap());
            let mtime = |dir: &Path| fs::metadata(dir.join(name)).unwrap().modified().unwrap();
            assert_eq!(mtime(&source), mtime(&restored));
        }
    }

    [xfs] fn a_file_with_other_names_is_made_anew(fs: &Filesystem) {
        let (source, store) = scene(fs);
        let to = fs.join("to");
        let restored = below(&store.restores("one", to.clone()), &source);
        let (kept, own) = (fs.join("kept"), fs.join("own"));
        write(&kept, b"must not change");
        fs::remove_file(restored.join("a")).unwrap();
        fs::hard_link(&kept, restored.join("a")).unwrap();
        fs::hard_link(restored.join("b"), &own).unwrap();
        let args = ["--target".as_ref(), to.as_os_str()];
        let done: RestoreSums = sums(&store.run("restore", &args).expect(0));
        assert_eq!(done.files, 1, "{done:?}");
        assert_eq!(fs::read(&kept).unwrap(), b"must not change");
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        assert_eq!(inode(&own), inode(&restored.join("b")), "size and time match");
        assert_eq!(inode(&restored.join("first")), inode(&restored.join("second")));
        fs::remove_file(&own).unwrap();
        tools::assert_equal_trees(&source, &restored);
        // With --verify, no file with other names is trusted.
        fs::hard_link(restored.join("b"), &own).unwrap();
        store.run("restore", &[&args[..], &["--verify".as_ref()]].concat()).expect(0);
        assert_ne!(inode(&own), inode(&restored.join("b")));
        tools::assert_equal_trees(&source, &restored);
    }

    [xfs] fn writes_that_fail_once_make_a_restore_fail_and_the_next_one_repairs_it(fs: &Filesystem) {
        let (source, repo) = (fs.dir("source"), fs.join("repo"));
        for number in 0..200 {
            write(source.join(format!("{number:03}")), &bytes(number, 300_000));
        }
        take("one", &source, &repo);
        let store = Store::made(fs, Backend::Local);
        store.push(&repo);
        let disk = FailingDisk::new(fs);
        for keeps_cache in [false, true] {
            let to = disk.join(format!("to {keeps_cache}"));
            let (args, restored) = (["--target".as_ref(), to.as_os_str()], below(&to, &source));
            disk.breaks_after(8 << 20);
            store.run("restore", &args).expect(1);
            match keeps_cache {
                true => disk.is_mended_and_the_cache_stays(),
                false => disk.is_mended(),
            }
            let looks_restored = |name: &str| {
                let time = |dir: &Path| fs::metadata(dir.join(name)).and_then(|meta| meta.modified()).ok();
                time(&restored) == time(&source)
            };
            let lost = names(&source).into_iter().filter(|name| looks_restored(name)).collect::<Vec<_>>();
            assert_eq!(lost, [""; 0], "no file has its final time");
            store.run("restore", &args).expect(0);
            // Only now the disk is read.
            disk.remount();
            tools::assert_equal_trees(&source, &restored);
        }
    }

    [xfs] fn content_is_synced_before_a_file_gets_its_time(fs: &Filesystem) {
        let (source, store) = scene(fs);
        let (to, log) = (fs.join("to"), fs.join("log"));
        let mut strace = store.program("strace");
        strace.args(["-f", "-qq", "-e", "trace=syncfs,utimensat", "-o"]).arg(&log);
        strace.args([env!("CARGO_BIN_EXE_pleach"), "offsite", "restore", "--to", &store.url, "--target"]).arg(&to);
        finish(&mut strace).expect(0);
        let log = fs::read_to_string(&log).unwrap();
        let call = |line: &str| ["syncfs(", "utimensat("].into_iter().find(|call| line.contains(call));
        let calls: Vec<_> = log.lines().filter_map(call).collect();
        assert_eq!((calls.first(), calls.last()), (Some(&"syncfs("), Some(&"syncfs(")), "{log}");
        assert!(calls.contains(&"utimensat("), "{log}");
        tools::assert_equal_trees(&source, &below(&to, &source));
    }

    [xfs] fn a_sync_that_fails_makes_a_restore_fail(fs: &Filesystem) {
        let (source, store) = scene(fs);
        let to = fs.join("to");
        let args = ["--target".as_ref(), to.as_os_str()];
        let mut strace = store.program("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "inject=syncfs:error=EIO:when=1"]);
        strace.args([env!("CARGO_BIN_EXE_pleach"), "offsite", "restore", "--to", &store.url]).args(args);
        finish(&mut strace).expect(1).saying("sync the new files");
        let done: RestoreSums = sums(&store.run("restore", &args).expect(0));
        assert!(done.files == 0 && done.restored_bytes == 0, "all content is there, and was compared: {done:?}");
        tools::assert_equal_trees(&source, &below(&to, &source));
    }
}

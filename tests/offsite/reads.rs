//! What a push reads, and what restic needs to read after it.

use super::lines::{Listed, PushSums, Pushed, sums};
use super::stores::{Backend, Store};
use super::{below, in_store, seen_by_restic, take, two_nights};
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The regular files that a command opens, by strace.
#[track_caller]
fn opened(command: &Command, log: &Path) -> Vec<PathBuf> {
    let mut strace = Command::new("strace");
    strace.args(tools::TRACE).args(["-z", "-s", "4096", "-e", "trace=open,openat,openat2", "-o"]).arg(log);
    strace.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    finish(strace.stdin(std::process::Stdio::null())).expect(0);
    // `openat(3</dir>, "file", O_RDONLY) = 5</dir/file>`
    let path = |line: &String| PathBuf::from(line.rsplit_once('<')?.1.strip_suffix('>')?).into();
    let mut paths: Vec<PathBuf> =
        tools::take_trace(log).iter().filter_map(path).filter(|path| path.is_file()).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The opened files below a directory, relative to it.
#[track_caller]
fn opened_below(dir: &Path, command: &Command, log: &Path) -> Vec<PathBuf> {
    let below = |path: &PathBuf| path.strip_prefix(dir).ok().map(Path::to_path_buf);
    opened(command, log).iter().filter_map(below).collect()
}

on_filesystems! {
    [xfs, btrfs] fn only_changed_files_are_read(fs: &Filesystem) {
        let (source, repo, store) = (fs.dir("source"), fs.join("repo"), Store::made(fs, Backend::Local));
        tree::plain(&source);
        (0..300).for_each(|number| write(source.join(format!("file-{number}")), &bytes(number, 5000)));
        take("one", &source, &repo);
        let first: PushSums = sums(&store.push(&repo));
        let all: u64 = tools::files(&source).iter().map(|file| fs::metadata(file).unwrap().len()).sum();
        assert_eq!((first.read_bytes, first.files), (all, 305), "{first:?}");
        // Changed, new, and renamed, which another path makes new to restic too.
        overwrite(&source.join("file-7"), 1000, b"changed");
        write(source.join("c/new"), &bytes(1000, 123_456));
        fs::rename(source.join("b"), source.join("renamed")).unwrap();
        fs::remove_file(source.join("file-9")).unwrap();
        take("two", &source, &repo);
        let tree = inside(&repo, "two", &source);
        let read = opened_below(&tree, &store.pleach("push", [&repo]), &fs.join("trace"));
        assert_eq!(read, ["c/new", "file-7", "renamed"].map(PathBuf::from));
        store.assert_sound();
        let restored = store.restic_restores("latest", fs.join("to"));
        tools::assert_equal_trees(&source, &below(&restored, &source));
    }

    [xfs, btrfs] fn read_bytes_are_those_of_the_changed_files(fs: &Filesystem) {
        let (source, repo, store) = (fs.dir("source"), fs.join("repo"), Store::made(fs, Backend::Local));
        tree::plain(&source);
        take("one", &source, &repo);
        store.push(&repo);
        overwrite(&source.join("b"), 1000, b"changed");
        write(source.join("c/new"), &bytes(1000, 123_456));
        take("two", &source, &repo);
        let second: PushSums = sums(&store.push(&repo));
        assert_eq!((second.snapshots, second.read_bytes), (1, 60_000 + 123_456), "{second:?}");
        assert!(second.stored_bytes > 123_456 && second.stored_bytes < 250_000, "{second:?}");
        take("three", &source, &repo);
        let third: PushSums = sums(&store.push(&repo));
        assert_eq!((third.snapshots, third.read_bytes, third.files), (1, 0, 6), "{third:?}");
        assert!(third.stored_bytes < 2000, "{third:?}");
    }

    [xfs] fn a_change_of_metadata_costs_no_data(fs: &Filesystem) {
        let (source, repo, store) = (fs.dir("source"), fs.join("repo"), Store::made(fs, Backend::Local));
        tree::plain(&source);
        take("one", &source, &repo);
        store.push(&repo);
        finish(Command::new("chmod").arg("600").arg(source.join("b"))).expect(0);
        take("two", &source, &repo);
        let second: PushSums = sums(&store.push(&repo));
        // It may be read, since its time of change is another one, but nothing of it is stored again.
        assert!(second.read_bytes <= 60_000 && second.stored_bytes < 10_000, "{second:?}");
        store.assert_sound();
        let restored = store.restic_restores("latest", fs.join("to"));
        tools::assert_equal_trees(&source, &below(&restored, &source));
    }

    [xfs, btrfs] fn a_missed_night_still_reads_only_what_changed(fs: &Filesystem) {
        let (source, repo, store) = (fs.dir("source"), fs.join("repo"), Store::made(fs, Backend::Local));
        tree::plain(&source);
        take("one", &source, &repo);
        store.push(&repo);
        overwrite(&source.join("a"), 10, b"changed");
        take("two", &source, &repo);
        overwrite(&source.join("b"), 10, b"changed");
        take("three", &source, &repo);
        let sent: PushSums = sums(&store.run("push", &[repo.as_ref(), "three".as_ref()]).expect(0));
        assert_eq!((sent.snapshots, sent.read_bytes), (1, 70_000), "{sent:?}");
        let sent: PushSums = sums(&store.push(&repo));
        assert_eq!(sent.snapshots, 1, "{sent:?}");
        store.assert_sound();
        for name in ["one", "two", "three"] {
            let restored = store.restores(name, fs.join(name));
            tools::assert_equal_trees(&inside(&repo, name, &source), &below(&restored, &source));
        }
    }

    [xfs, btrfs] fn restic_continues_a_push_as_if_it_had_read_the_live_source(fs: &Filesystem) {
        let (source, repo) = two_nights(fs);
        let store = Store::made(fs, Backend::Local);
        let pushed = store.push(&repo).lines::<Pushed>();
        let mut backup = store.program("restic");
        backup.args(["--no-cache", "--repo", &store.url, "backup", "--json"]).arg(&source);
        assert_eq!(opened_below(&source, &backup, &fs.join("trace")), Vec::<PathBuf>::new());
        let newest = seen_by_restic(&store).pop().unwrap();
        let parent = newest["parent"].as_str().expect("a parent").to_string();
        assert!(parent.starts_with(pushed[1].id.as_ref().unwrap()), "{newest} and {pushed:?}");
        let summary = finish(&mut backup).expect(0).json().pop().unwrap();
        let count = |field| number(&summary, field);
        assert_eq!((count("files_new"), count("files_changed"), count("files_unmodified")), (0, 0, 5), "{summary}");
        assert_eq!(count("data_blobs"), 0, "{summary}");
    }

    [xfs] fn a_push_continues_what_restic_stored_of_the_live_source(fs: &Filesystem) {
        let (source, repo) = two_nights(fs);
        let store = Store::made(fs, Backend::Local);
        store.restic(&["backup".as_ref(), source.as_ref()]).expect(0);
        let sent: PushSums = sums(&store.run("push", &[repo.as_ref(), "two".as_ref()]).expect(0));
        assert_eq!((sent.snapshots, sent.files), (1, 5), "{sent:?}");
        assert!(sent.stored_bytes < 10_000, "{sent:?}");
        store.assert_sound();
        // restic's own snapshot is not in the list, and confuses no push.
        assert_eq!(in_store(&store), ["two"]);
        assert_eq!(sums::<PushSums>(&store.push(&repo)).snapshots, 1);
    }

    [xfs] fn two_repositories_share_a_store(fs: &Filesystem) {
        let store = Store::made(fs, Backend::Local);
        let sides = ["left", "right"].map(|side| (fs.dir(side), fs.join(format!("{side} repo"))));
        for (source, repo) in &sides {
            tree::plain(source);
            write(source.join("own"), source.to_string_lossy().as_bytes());
            take("one", source, repo);
            assert_eq!(sums::<PushSums>(&store.push(repo)).snapshots, 1);
        }
        for (source, repo) in &sides {
            assert_eq!(sums::<PushSums>(&store.push(repo)).snapshots, 0);
            take("two", source, repo);
            let sent: PushSums = sums(&store.push(repo));
            assert_eq!((sent.snapshots, sent.read_bytes), (1, 0), "{sent:?}");
        }
        let ids: Vec<_> = store.run("list", &[]).expect(0).lines::<Listed>();
        assert_eq!(ids.len(), 4);
        for (source, _) in &sides {
            let of_source = |line: &&Listed| line.paths() == [source.display().to_string()];
            let id = &ids.iter().rfind(of_source).unwrap().id;
            let to = fs.join(format!("to {id}"));
            tools::assert_equal_trees(source, &below(&store.restores(id, to), source));
        }
    }

    [xfs] fn a_store_is_pushed_from_a_read_only_repository(fs: &Filesystem) {
        let test = concat!(module_path!(), "::a_store_is_pushed_from_a_read_only_repository");
        let Some(mut own) = own::Own::new(fs.kind, test, 512, &[], "") else { return };
        let (source, repo) = (own.join("source"), own.join("repo"));
        fs::create_dir(&source).unwrap();
        tree::plain(&source);
        take("one", &source, &repo);
        own.remount_with("ro");
        let store = Store::made(fs, Backend::Local);
        assert_eq!(sums::<PushSums>(&store.push(&repo)).snapshots, 1);
        store.assert_sound();
    }

    [xfs] fn a_missing_file_is_reported_as_damage_and_the_rest_is_pushed(fs: &Filesystem) {
        let (source, repo, store) = (fs.dir("source"), fs.join("repo"), Store::made(fs, Backend::Local));
        tree::plain(&source);
        take("one", &source, &repo);
        // A file that the manifest has, and the tree lost.
        fs::remove_file(inside(&repo, "one", &source).join("b")).unwrap();
        let run = store.run("push", &[repo.as_ref()]).expect(4);
        assert_eq!(sums::<PushSums>(&run).errors, 1);
        let [problem] = &run.lines::<json_lines::Problem>()[..] else { panic!("{run:?}") };
        assert!(problem.path.as_ref().is_some_and(|path| path.ends_with("/b")), "{problem:?}");
        store.assert_sound();
        let restored = below(&store.restores("latest", fs.join("to")), &source);
        assert_eq!(names(&restored), ["a", "c"]);
    }

    [xfs] fn many_snapshots_arrive_in_the_order_of_their_time(fs: &Filesystem) {
        let (source, repo, store) = (fs.dir("source"), fs.join("repo"), Store::made(fs, Backend::Local));
        tree::plain(&source);
        let names: Vec<_> = (0..5).map(|night| format!("night-{night}")).collect();
        for (night, name) in names.iter().enumerate() {
            write(source.join(name), &bytes(night as u64, 4000));
            take(name, &source, &repo);
        }
        let lines = store.push(&repo).lines::<Pushed>();
        assert_eq!(lines.iter().map(|line| &line.name).collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
        assert!(lines[1..].iter().all(|line| line.read_bytes == Some(4000)), "{lines:?}");
        let listed = [OsStr::new("list"), "--json".as_ref(), repo.as_ref()];
        assert_eq!(pleach(listed).expect(0).lines::<json_lines::Snapshot>().len(), in_store(&store).len());
    }
}

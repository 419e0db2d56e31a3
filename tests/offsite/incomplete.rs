//! Snapshots that cannot be sent whole: damaged data is not stored as good, and files that could not be read are sent
//! when they are there again.

use super::lines::{PruneSums, PushSums, Pushed, sums};
use super::stores::{Backend, Store};
use super::{below, in_store, inside, take};
use crate::harness::json_lines::Problem;
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// A repository with a snapshot, an empty store, and the snapshot's copy of the source.
fn scene(fs: &Filesystem) -> (PathBuf, PathBuf, Store, PathBuf) {
    let (source, repo) = (fs.dir("source"), fs.join("repo"));
    tree::plain(&source);
    take("one", &source, &repo);
    let tree = inside(&repo, "one", &source);
    (source, repo, Store::made(fs, Backend::Local), tree)
}

/// Changes a byte of a file, and nothing that its status shows but the time of change.
fn damage(path: &Path) {
    let times = fs::metadata(path).unwrap().modified().unwrap();
    overwrite(path, 100, b"X");
    File::options().write(true).open(path).unwrap().set_modified(times).unwrap();
}

/// Pushes with a problem of this code, and returns the run.
#[track_caller]
fn push_with(store: &Store, args: &[&OsStr], status: i32, code: &str) -> Run {
    let run = store.run("push", args).expect(status);
    let codes: Vec<_> = run.lines::<Problem>().into_iter().map(|problem| problem.code).collect();
    assert_eq!(codes, [code], "{run:?}");
    run
}

on_filesystems! {
    [xfs] fn damaged_content_is_not_stored_as_good(fs: &Filesystem) {
        let (_, repo, store, tree) = scene(fs);
        damage(&tree.join("b"));
        let run = push_with(&store, &[repo.as_ref()], 4, "damage");
        assert!(run.stderr.contains("source/b") && run.stderr.contains("hash"), "{run:?}");
        let (pushed, sent) = (run.lines::<Pushed>(), sums::<PushSums>(&run));
        assert_eq!((pushed[0].files, sent.snapshots, sent.errors), (Some(4), 1, 1), "{run:?}");
        let restored = store.restic_restores("latest", fs.join("to"));
        assert!(!restored.join(tree.join("b").strip_prefix(&repo).unwrap()).exists());
        store.assert_sound();
    }

    [xfs] fn a_snapshot_that_lacks_files_in_the_store_is_sent_again_when_it_is_named(fs: &Filesystem) {
        let (source, repo, store, tree) = scene(fs);
        let away = fs.join("away");
        fs::rename(tree.join("b"), &away).unwrap();
        let run = push_with(&store, &[repo.as_ref()], 4, "damage");
        assert!(run.stderr.contains("source/b") && run.stderr.contains("not there"), "{run:?}");
        fs::rename(&away, tree.join("b")).unwrap();
        let run = push_with(&store, &[repo.as_ref()], 3, "incomplete");
        assert!(run.stderr.contains("one") && run.stderr.contains("name the snapshot"), "{run:?}");
        let sent: PushSums = sums(&store.run("push", &[repo.as_ref(), "one".as_ref()]).expect(0));
        assert_eq!((sent.snapshots, sent.errors, sent.read_bytes), (1, 0, 60_000), "only the missing file: {sent:?}");
        assert_eq!(sums::<PushSums>(&store.push(&repo)).snapshots, 0);
        assert_eq!(in_store(&store), ["one"], "the whole one");
        tools::assert_equal_trees(&source, &below(&store.restores("one", fs.join("to")), &source));
        let kept: PruneSums = sums(&store.run("prune", &["--keep-last".as_ref(), "9".as_ref()]).expect(0));
        assert_eq!((kept.kept, kept.removed), (1, 1), "the other one goes: {kept:?}");
        tools::assert_equal_trees(&source, &below(&store.restic_restores("latest", fs.join("again")), &source));
    }

    [xfs] fn a_file_with_endless_holes_does_not_stall_a_push(fs: &Filesystem) {
        let (source, repo, store, _) = scene(fs);
        let endless = File::create(source.join("endless")).unwrap();
        endless.set_len(7 << 60).unwrap();
        take("two", &source, &repo);
        let time = fs::metadata(&source).unwrap().modified().unwrap();
        let run = store.run("push", &[repo.as_ref()]).expect(3);
        assert!(run.stderr.contains("source/endless") && run.stderr.contains("holes"), "{run:?}");
        assert_eq!(in_store(&store), ["one", "two"]);
        fs::remove_file(source.join("endless")).unwrap();
        File::open(&source).unwrap().set_modified(time).unwrap();
        tools::assert_equal_trees(&source, &below(&store.restores("two", fs.join("to")), &source));
    }

    [xfs] fn a_store_in_the_repository_itself_is_refused(fs: &Filesystem) {
        let (_, repo, mut store, _) = scene(fs);
        store.url = repo.join("store").display().to_string();
        store.run("push", &[repo.as_ref()]).expect(2).saying("name a directory outside");
    }

    [xfs] fn a_password_file_means_the_same_to_restic(fs: &Filesystem) {
        let file = fs.join("password");
        for (number, text) in ["trail \n", " lead\n", "two\nlines\n", "\u{feff}mark\r\n", "plain"].iter().enumerate() {
            write(&file, text.as_bytes());
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            let store = fs.join(format!("store-{number}"));
            let args = ["offsite".as_ref(), "init".as_ref(), "--to".as_ref(), store.as_os_str()];
            pleach(args.into_iter().chain(["--password-file".as_ref(), file.as_os_str()])).expect(0);
            let mut restic = std::process::Command::new("restic");
            restic.args(["--no-cache", "snapshots", "--password-file"]).arg(&file).arg("--repo").arg(&store);
            finish(restic.env_remove("RESTIC_PASSWORD")).expect(0);
        }
    }

    [xfs] fn space_that_was_marked_before_counts_as_freed_now(fs: &Filesystem) {
        let (source, repo, store, _) = scene(fs);
        write(source.join("large"), &bytes(1, 3_000_000));
        take("two", &source, &repo);
        fs::remove_file(source.join("large")).unwrap();
        take("three", &source, &repo);
        store.push(&repo);
        let used = || tools::files(&fs.join("store/data")).iter().map(|f| fs::metadata(f).unwrap().len()).sum::<u64>();
        let rule: [&OsStr; 2] = ["--keep-last".as_ref(), "1".as_ref()];
        let marked: PruneSums = sums(&store.run("prune", &rule).expect(0));
        assert!(marked.later_bytes > 2_900_000 && marked.freed_bytes == 0, "{marked:?}");
        let again: PruneSums = sums(&store.run("prune", &rule).expect(0));
        assert!(again.later_bytes > 2_900_000, "it is still there: {again:?}");
        let (before, now) = (used(), [&rule[..], &["--now".as_ref()]].concat());
        let foretold: PruneSums = sums(&store.run("prune", &[&now[..], &["--dry-run".as_ref()]].concat()).expect(0));
        let freed: PruneSums = sums(&store.run("prune", &now).expect(0));
        assert_eq!((freed.freed_bytes, freed.later_bytes), (foretold.freed_bytes, 0));
        assert!(freed.freed_bytes > 2_900_000 && freed.freed_bytes >= before - used(), "{freed:?}");
    }
}

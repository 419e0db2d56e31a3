//! Hosts that fail, lie or say nothing.

use super::lines::{CheckSums, Listed, said, sums};
use super::stores::{Backend, PASSWORD, Store};
use super::{in_store, take, two_nights};
use crate::harness::rest_server::{Judge, Manner, serve};
use crate::harness::*;
use crate::on_filesystems;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

/// A store in a directory with two snapshots, and the path of its repository.
fn made(fs: &Filesystem) -> (PathBuf, Store) {
    let (_, repo) = two_nights(fs);
    let store = Store::made(fs, Backend::Local);
    store.push(&repo);
    (repo, store)
}

/// Reaches the store through a server from now on.
fn behind(fs: &Filesystem, store: &mut Store, judge: Box<Judge>) {
    store.url = serve(&fs.join("store"), judge);
}

/// Waits until a command has begun to wait, asks it to stop, and returns its status.
#[track_caller]
fn stopped(mut command: Command) -> Option<i32> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_millis(700));
    assert!(child.try_wait().unwrap().is_none(), "it waits");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it still waits");
        thread::sleep(Duration::from_millis(20));
    }
}

on_filesystems! {
    [xfs] fn an_error_that_a_second_attempt_cures_is_none(fs: &Filesystem) {
        let (repo, mut store) = made(fs);
        let errors = AtomicUsize::new(0);
        let judge = move |method: &str, path: &str| {
            let is_data = method == "GET" && path.len() > 40 || method == "POST";
            match is_data && errors.fetch_add(1, Ordering::Relaxed).is_multiple_of(20) {
                true => Manner::Status(503),
                false => Manner::Usual,
            }
        };
        behind(fs, &mut store, Box::new(judge));
        let to = fs.join("to");
        let run = store.run("restore", &["--no-cache".as_ref(), "--target".as_ref(), to.as_ref()]).expect(0);
        assert_eq!(run.stderr, "");
        take("three", &fs.join("source"), &repo);
        assert_eq!(store.push(&repo).stderr, "");
        assert_eq!(in_store(&store), ["one", "two", "three"]);
    }

    [xfs] fn a_request_that_was_done_counts_although_its_answer_was_lost(fs: &Filesystem) {
        let (repo, mut store) = made(fs);
        let lost = Mutex::new(HashSet::new());
        let judge = move |method: &str, path: &str| {
            let is_first = || lost.lock().unwrap().insert(format!("{method} {path}"));
            let is_change = ["POST", "DELETE"].contains(&method);
            if is_change && is_first() { Manner::Lost } else { Manner::Usual }
        };
        behind(fs, &mut store, Box::new(judge));
        overwrite(&fs.join("source/new"), 0, b"other");
        take("three", &fs.join("source"), &repo);
        assert_eq!(store.push(&repo).stderr, "");
        let run = store.run("prune", &["--keep-last".as_ref(), "1".as_ref(), "--now".as_ref()]).expect(0);
        assert_eq!(run.stderr, "");
        assert_eq!(in_store(&store), ["three"]);
        store.run("check", &["--read-data".as_ref()]).expect(0);
    }

    [xfs] fn an_interrupted_prune_removes_no_further_snapshot(fs: &Filesystem) {
        let (repo, mut store) = made(fs);
        let names: Vec<String> = (0..14).map(|number| format!("more {number:02}")).collect();
        names.iter().for_each(|name| take(name, &fs.join("source"), &repo));
        store.push(&repo);
        let judge = |method: &str, _: &str| {
            if method == "DELETE" {
                thread::sleep(Duration::from_millis(500));
            }
            Manner::Usual
        };
        behind(fs, &mut store, Box::new(judge));
        let snapshots = fs.join("store/snapshots");
        let left = || fs::read_dir(&snapshots).unwrap().count();
        let mut prune = store.pleach("prune", ["--keep-last", "1"]);
        let mut child = prune.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        running::await_that("it removes snapshots", || left() < 16);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert!(left() > 4, "{} are left", left());
        store.url = fs.join("store").to_str().unwrap().into();
        store.run("prune", &["--keep-last".as_ref(), "1".as_ref()]).expect(0);
        assert_eq!(in_store(&store), ["more 13"]);
    }

    [xfs] fn a_snapshot_that_is_removed_during_a_push_is_no_failure(fs: &Filesystem) {
        let (repo, mut store) = made(fs);
        for name in ["three", "four"] {
            overwrite(&fs.join("source/new"), 0, name.as_bytes());
            take(name, &fs.join("source"), &repo);
        }
        let (of_the_judge, is_removed) = (repo.clone(), Once::new());
        let judge = move |method: &str, path: &str| {
            if method == "POST" && path.starts_with("/snapshots/") {
                let remove = || pleach(["remove".as_ref(), of_the_judge.as_os_str(), "four".as_ref()]).expect(0);
                is_removed.call_once(|| drop(remove()));
            }
            Manner::Usual
        };
        behind(fs, &mut store, Box::new(judge));
        let run = store.run("push", &[repo.as_os_str()]).expect(0);
        run.saying("four was deleted meanwhile");
        assert_eq!(in_store(&store), ["one", "two", "three"]);
    }

    [xfs] fn an_answer_without_end_is_an_error_and_does_not_fill_the_memory(fs: &Filesystem) {
        let (_, mut store) = made(fs);
        for part in ["/config", "/keys/", "/snapshots/", "/index/"] {
            let judge = move |method: &str, path: &str| {
                let is_file = path.starts_with(part) && path.len() > part.len() || path == part && part == "/config";
                if method == "GET" && is_file { Manner::Endless } else { Manner::Usual }
            };
            behind(fs, &mut store, Box::new(judge));
            let mut check = store.program("prlimit");
            check.args(["--data=3000000000", env!("CARGO_BIN_EXE_pleach"), "offsite", "check", "--to", &store.url]);
            let run = finish(&mut check);
            assert!([1, 4].contains(&run.status), "{part}: {run:?}");
            assert!(said(&run).contains("more than"), "{part}: {run:?}");
        }
    }

    [xfs] fn a_host_that_says_nothing_does_not_hold_up_an_interruption(fs: &Filesystem) {
        let (repo, mut store) = made(fs);
        let script = fs.join("ssh");
        write(&script, b"#!/bin/sh\n[ \"$1\" = -G ] && exit 1\nexec sleep 100\n");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let local = store.url.clone();
        for url in [serve(&fs.join("store"), Box::new(|_, _| Manner::Silent)), format!("sftp:nas:{local}")] {
            store.url = url;
            for (verb, args) in [("push", vec![repo.as_os_str()]), ("list", vec![]), ("check", vec![])] {
                let mut command = store.pleach(verb, args);
                command.env("PLEACH_SSH", &script);
                assert_eq!(stopped(command), Some(130), "{verb} {}", store.url);
            }
        }
    }

    [xfs] fn a_damaged_snapshot_costs_no_other_one(fs: &Filesystem) {
        let (repo, store) = made(fs);
        let ids: Vec<_> = store.run("list", &[]).expect(0).lines::<Listed>().into_iter().map(|one| one.id).collect();
        let file = fs.join("store/snapshots").join(&ids[1]);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let (to, no_cache) = (fs.join("to"), OsStr::new("--no-cache"));
        let restore = |id: &str| {
            let target = ["--target".as_ref(), to.as_os_str(), id.as_ref()];
            store.run("restore", &[&[no_cache], &target[..]].concat())
        };
        let content = fs::read(&file).unwrap();
        for damaged in [&content[..20], &[&content[..30], b"damaged"].concat()] {
            fs::write(&file, damaged).unwrap();
            let list = store.run("list", &[no_cache]).expect(4).saying(&ids[1]);
            let names: Vec<_> = list.lines::<Listed>().into_iter().map(|snapshot| snapshot.name).collect();
            assert_eq!(names, ["one"], "{list:?}");
            restore("one").expect(0);
            restore("two").expect(1).saying("offsite check");
            // The damaged one may be newer.
            restore("latest").expect(4).saying(&ids[1]);
            let rule = ["--keep-last".as_ref(), "1".as_ref()];
            store.run("prune", &[&[no_cache], &rule[..]].concat()).expect(4).saying(&ids[1]);
            let check = store.run("check", &[]).expect(4);
            assert_eq!(sums::<CheckSums>(&check).damaged, 1, "{check:?}");
            assert_eq!(tools::files(&fs.join("store/snapshots")).len(), 2);
        }
        // It is sent again, and the damage is not forgotten.
        store.run("push", &[repo.as_ref(), no_cache]).expect(4).saying(&ids[1]);
        fs::remove_file(&file).unwrap();
        assert_eq!(in_store(&store), ["one", "two"]);
        store.run("check", &["--read-data".as_ref()]).expect(0);
    }

    [xfs] fn a_pipe_among_the_snapshots_is_none(fs: &Filesystem) {
        let (_, store) = made(fs);
        finish(Command::new("mkfifo").arg(fs.join("store/snapshots").join("0".repeat(64)))).expect(0);
        assert_eq!(in_store(&store), ["one", "two"]);
    }

    [xfs] fn a_store_without_any_key_has_no_wrong_password(fs: &Filesystem) {
        let (_, store) = made(fs);
        tools::files(&fs.join("store/keys")).into_iter().for_each(|key| fs::remove_file(key).unwrap());
        let run = store.run("list", &[]).expect(4).saying("no key file");
        assert!(!run.stderr.contains("password"), "{run:?}");
    }

    [xfs] fn a_pipe_in_the_place_of_a_file_is_not_waited_for(fs: &Filesystem) {
        let (_, store) = made(fs);
        let config = fs.join("store/config");
        fs::remove_file(&config).unwrap();
        finish(Command::new("mkfifo").arg(&config)).expect(0);
        let run = store.run("list", &[]).expect(1);
        assert!(!run.stderr.contains(PASSWORD), "{run:?}");
        run.saying("not a regular file");
    }
}

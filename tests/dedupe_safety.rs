//! `pleach dedupe` with concurrent writers, on files that it cannot share, and interrupted.

use crate::dedupe::{dedupe, dedupe_with, run_dedupe};
use crate::harness::meddler::Stop;
use crate::harness::own::Own;
use crate::harness::swap::Swap;
use crate::harness::*;
use crate::on_filesystems;
use pleach::dedupe::Options;
use pleach::error::Error;
use pleach::monitor::Monitor;
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Some equal files.
fn equal(dir: &Path, names: &[&str], size: usize) {
    for name in names {
        write(dir.join(name), &bytes(1, size));
    }
}

/// The number of files skipped for a reason.
fn skipped(summary: &Value, reason: &str) -> u64 {
    summary["skipped"][reason].as_u64().unwrap_or(0)
}

fn btrfs(args: &[&str], path: &Path) {
    finish(Command::new("btrfs").arg("-q").args(args).arg(path)).expect(0);
}

/// A block of a file that a writer rewrites: its number, repeated, so that a torn or lost block is detected.
fn block(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(512)
}

/// Removes a directory while its parent is walked, as a snapshot that publishes its tree does.
struct Removing {
    directory: PathBuf,
    problems: Mutex<Vec<String>>,
}

impl Monitor for Removing {
    fn problem(&self, error: &Error) {
        self.problems.lock().unwrap().push(error.to_string());
    }

    fn is_cancelled(&self) -> bool {
        let _ = fs::remove_dir_all(&self.directory);
        false
    }
}

on_filesystems! {
    [xfs, btrfs] fn a_directory_that_vanishes_after_it_was_listed_is_no_failure(fs: &Filesystem) {
        let dir = fs.dir("tree");
        fs::create_dir_all(dir.join("partial/tree")).unwrap();
        equal(&dir, &["a", "b", "partial/tree/c"], 100_000);
        let monitor = Removing { directory: dir.join("partial"), problems: Mutex::default() };
        let options = Options { threads: Some(1), ..Options::default() };
        let stats = pleach::dedupe::dedupe(std::slice::from_ref(&dir), &options, &monitor).unwrap();
        assert!(!dir.join("partial").exists());
        assert_eq!((stats.files, stats.errors), (2, 0), "{:?}", monitor.problems);
        assert!(monitor.problems.lock().unwrap().is_empty());
    }

    [xfs, btrfs] fn writers_lose_nothing(fs: &Filesystem) {
        let dir = fs.dir("tree");
        let size = 256 * 1024;
        let names = ["overwritten", "appended", "truncated", "still", "still too"];
        equal(&dir, &names, size);
        let stop = AtomicBool::new(false);
        let original = bytes(1, size);
        thread::scope(|scope| {
            let overwriter = scope.spawn(|| {
                let file = File::options().read(true).write(true).open(dir.join("overwritten")).expect("opens");
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    // Alternates between equal and different content, so that there is always something to share.
                    let at = number % 8 * 4096;
                    let content =
                        if number % 3 == 0 { original[at as usize..][..4096].to_vec() } else { block(number) };
                    file.write_all_at(&content, at).expect("can be written");
                    let mut read = vec![0; 4096];
                    file.read_exact_at(&mut read, at).expect("can be read");
                    assert!(read == content, "what was written at {at} is read");
                }
                (0..8_u64).map(|part| {
                    let mut read = vec![0; 4096];
                    file.read_exact_at(&mut read, part * 4096).expect("can be read");
                    read
                }).collect::<Vec<_>>()
            });
            let appender = scope.spawn(|| {
                let mut appended = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    let mut file = File::options().append(true).open(dir.join("appended")).expect("opens");
                    file.write_all(&block(appended)).expect("can be appended to");
                    appended += 1;
                    if appended.is_multiple_of(50) {
                        file.set_len(size as u64).expect("can be cut");
                        appended = 0;
                    }
                }
                appended
            });
            let cutter = scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let file = File::options().write(true).open(dir.join("truncated")).expect("opens");
                    file.set_len(1000).expect("can be cut");
                    file.write_all_at(&original[1000..], 1000).expect("can be written");
                }
            });
            let renamer = scope.spawn(|| {
                let mut number = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    let path = dir.join(format!("short-lived {}", number % 3));
                    write(&path, &original);
                    fs::remove_file(&path).expect("can be removed");
                    number += 1;
                }
            });
            let until_here = Stop(&stop);
            for _ in 0..12 {
                let run = run_dedupe(&["--no-cache"], &dir);
                assert!([0, 3].contains(&run.status), "{run:?}");
                let bug = run.stderr.contains("bug");
                assert!(!bug, "{run:?}");
            }
            drop(until_here);
            let parts = overwriter.join().expect("the overwriter saw what it wrote");
            let appended = appender.join().expect("the appender ends");
            cutter.join().expect("the cutter ends");
            renamer.join().expect("the renamer ends");
            let now = fs::read(dir.join("overwritten")).expect("can be read");
            assert!(now[..8 * 4096] == parts.concat() && now[8 * 4096..] == original[8 * 4096..], "overwritten");
            let now = fs::read(dir.join("appended")).expect("can be read");
            let tail: Vec<u8> = (0..appended).flat_map(block).collect();
            assert!(now[..size] == original && now[size..] == tail, "appended");
        });
        for name in ["truncated", "still", "still too"] {
            assert!(fs::read(dir.join(name)).expect("can be read") == original, "{name}");
        }
        let done = dedupe_with(&["--no-cache"], &dir, 0);
        assert!(number(&done, "errors") == 0, "{done}");
        tools::assert_same_blocks(&dir.join("still"), &dir.join("truncated"));
    }

    [xfs, btrfs] fn an_immutable_file_is_counted_and_the_others_share(fs: &Filesystem) {
        let dir = fs.dir("tree");
        equal(&dir, &["a", "b", "fixed", "fixed too"], 100_000);
        let chattr = |mode: &str| {
            let mut chattr = Command::new("chattr");
            finish(chattr.arg(mode).args(["fixed", "fixed too"].map(|name| dir.join(name)))).expect(0);
        };
        chattr("+i");
        let planned = dedupe_with(&["--dry-run"], &dir, 3);
        let run = run_dedupe(&[], &dir).expect(3).saying("immutable").saying("fixed");
        let done = run.summary();
        // One of them is the source.
        assert_eq!((skipped(&done, "immutable"), number(&done, "duplicate_files")), (1, 2), "{done}");
        assert_eq!(number(&planned, "freed_bytes"), number(&done, "freed_bytes"));
        assert_eq!(skipped(&planned, "immutable"), 1);
        chattr("-i");
        assert_eq!(number(&dedupe(&dir), "duplicate_files"), 1);
    }

    [xfs, btrfs] fn what_a_user_may_not_write_is_counted(fs: &Filesystem) {
        let dir = fs.dir("tree");
        equal(&dir, &["own", "own too", "foreign", "foreign too"], 100_000);
        write(dir.join("secret"), &bytes(1, 100_000));
        finish(Command::new("chmod").args(["000"]).arg(dir.join("secret"))).expect(0);
        for name in ["own", "own too"] {
            chown(dir.join(name), Some(12345), None).expect("an owner can be set");
        }
        equal(&dir, &["anybody's", "anybody's too"], 120_000);
        finish(Command::new("chmod").args(["666"]).args(["anybody's", "anybody's too"].map(|name| dir.join(name))))
            .expect(0);
        let cache = fs.dir("cache");
        chown(&cache, Some(12345), None).expect("an owner can be set");
        let mut user = Command::new("setpriv");
        user.args([
            "--reuid=12345",
            "--regid=12345",
            "--clear-groups",
            env!("CARGO_BIN_EXE_pleach"),
            "dedupe",
            "--json",
        ]);
        let run = finish(user.arg(&dir).env("XDG_CACHE_HOME", &cache).stdin(Stdio::null())).expect(3);
        let run = run.saying("foreign").saying("secret");
        let done = run.summary();
        assert_eq!((skipped(&done, "no_permission"), skipped(&done, "unreadable")), (1, 1), "{done}");
        // One of the foreign files is the source. Files of others that anybody may write are shared as well.
        assert_eq!(number(&done, "duplicate_files"), 3, "{done}");
        tools::assert_same_blocks(&dir.join("anybody's"), &dir.join("anybody's too"));
        assert!(cache.join("pleach/dedupe").is_file(), "the cache is in the user's cache directory");
    }

    [btrfs] fn what_is_written_in_place_shares_with_its_like_only(fs: &Filesystem) {
        let dir = fs.dir("tree");
        fs::create_dir(dir.join("in place")).expect("a directory can be made");
        finish(Command::new("chattr").arg("+C").arg(dir.join("in place"))).expect(0);
        equal(&dir, &["a", "b", "in place/c", "in place/d"], 100_000);
        let done = dedupe(&dir);
        assert_eq!((number(&done, "duplicate_files"), skipped(&done, "nocow")), (2, 2), "{done}");
        assert!(tools::assert_same_blocks(&dir.join("a"), &dir.join("b")));
        assert!(tools::assert_same_blocks(&dir.join("in place/c"), &dir.join("in place/d")));
        let again = dedupe(&dir);
        assert_eq!((number(&again, "read_bytes"), number(&again, "submitted_bytes")), (0, 0), "{again}");
    }

    [btrfs] fn small_files_in_the_metadata_are_counted_as_inline(fs: &Filesystem) {
        let dir = fs.dir("tree");
        equal(&dir, &["a", "b"], 1000);
        finish(Command::new("sync").arg("-f").arg(&dir)).expect(0);
        let done = dedupe(&dir);
        assert_eq!((skipped(&done, "inline"), number(&done, "read_bytes"), number(&done, "freed_bytes")), (2, 0, 0));
    }

    [xfs, btrfs] fn a_swap_file_in_use_is_left_alone(fs: &Filesystem) {
        let dir = fs.dir("tree");
        let Some(swap) = Swap::begin(fs.kind, &dir, "dedupe_safety::a_swap_file_in_use_is_left_alone") else { return };
        let run = run_dedupe(&["--no-cache"], &dir);
        drop(swap);
        let done = run.expect(0).summary();
        assert_eq!((skipped(&done, "swap_file"), number(&done, "submitted_bytes")), (1, 0), "{done}");
    }

    [xfs] fn names_and_kinds_are_only_data(fs: &Filesystem) {
        let (dir, outside) = (fs.dir("tree"), fs.dir("outside"));
        tree::every_kind(&dir);
        equal(&outside, &["a", "b"], 60_000);
        symlink(&outside, dir.join("out")).expect("a link can be made");
        write(dir.join("names/copy of a \x1b[31m name"), &bytes(21, 5000));
        let run = run_dedupe(&["--dry-run"], &dir).expect(0);
        let line = |line: &&Value| line["type"] == "share" && line.to_string().contains("copy of a");
        assert_eq!(run.json().iter().filter(line).count(), 1, "{}", run.stdout);
        let shown = pleach([OsStr::new("dedupe"), "--dry-run".as_ref(), "--no-cache".as_ref(), dir.as_ref()]).expect(0);
        assert!(!shown.stdout.contains('\x1b') && !shown.stderr.contains('\x1b'));
        dedupe(&dir);
        let extents = tools::extents(&outside.join("a"));
        assert!(extents.iter().all(|extent| !extent.is_shared()), "no link is followed out of the tree");
    }

    [xfs] fn interrupted_it_says_so_and_what_was_shared_is_counted(fs: &Filesystem) {
        let dir = fs.dir("tree");
        let long = "x".repeat(200);
        for number in 0..1500 {
            write(dir.join(format!("{number} {long}")), &bytes(1, 5000));
        }
        // The plan is more than a pipe holds, so its writer waits until it is read.
        let mut command = command([
            OsStr::new("dedupe"),
            "--json".as_ref(),
            "--dry-run".as_ref(),
            "--no-cache".as_ref(),
            dir.as_ref(),
        ]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pleach can be started");
        let mut stdout = child.stdout.take().expect("stdout is a pipe");
        let full = || rustix::io::ioctl_fionread(&stdout).expect("a pipe reports its content") >= 48 << 10;
        let waited = (0..600).any(|_| full() || { thread::sleep(Duration::from_millis(100)); false });
        assert!(waited, "the plan is being written");
        running::signal(&child, Signal::INT);
        // The signal is delivered before the writer continues.
        thread::sleep(Duration::from_millis(50));
        let mut text = String::new();
        stdout.read_to_string(&mut text).expect("the plan is text");
        let output = child.wait_with_output().expect("a child can be waited for");
        let run = Run::new(output, "an interrupted dedupe".into()).expect(130).saying("interrupted");
        assert!(!run.stderr.contains("bug"));
        let last: Value = serde_json::from_str(text.lines().last().expect("there are lines")).expect("JSON");
        assert_eq!(last["type"], "summary");
        assert!(number(&last, "duplicate_files") < 1499, "{last}");
    }

    [ext4] fn a_filesystem_without_reflinks_is_refused_in_a_sentence(fs: &Filesystem) {
        let dir = fs.dir("tree");
        equal(&dir, &["a", "b"], 60_000);
        let run = run_dedupe(&["--no-cache"], &dir).expect(3).saying("ext4 cannot share extents");
        assert_eq!((number(&run.summary(), "files"), number(&run.summary(), "errors")), (0, 1));
        let file = dir.join("a");
        pleach([OsStr::new("dedupe"), "--no-cache".as_ref(), file.as_ref()]).expect(3).saying("cannot share extents");
    }

    [xfs, btrfs] fn two_filesystems_are_each_done_by_itself_and_it_is_said(fs: &Filesystem) {
        let elsewhere = fs.elsewhere();
        let (here, there) = (fs.dir("tree"), elsewhere.dir("tree"));
        equal(&here, &["a", "b"], 60_000);
        equal(&there, &["a", "b"], 60_000);
        settle();
        let args = [OsStr::new("dedupe"), "--json".as_ref(), "--no-cache".as_ref(), here.as_ref(), there.as_ref()];
        let done = pleach(args).expect(3).saying("2 filesystems").summary();
        assert_eq!(number(&done, "duplicate_files"), 2, "{done}");
        assert!(tools::assert_same_blocks(&here.join("a"), &here.join("b")));
        assert!(tools::assert_same_blocks(&there.join("a"), &there.join("b")));
        let missing = fs.join("missing");
        let args = [OsStr::new("dedupe"), "--json".as_ref(), "--no-cache".as_ref(), here.as_ref(), missing.as_ref()];
        pleach(args).expect(3).saying("missing");
        pleach([OsStr::new("dedupe"), "--no-cache".as_ref(), missing.as_ref()]).expect(1).saying("missing");
    }
}

#[test]
fn tmpfs_is_refused_in_a_sentence() {
    let dir = Path::new("/dev/shm");
    if !dir.is_dir() {
        return skip("dedupe_safety::tmpfs_is_refused_in_a_sentence", "no /dev/shm");
    }
    pleach([OsStr::new("dedupe"), "--no-cache".as_ref(), dir.as_ref()]).expect(3).saying("tmpfs cannot share extents");
}

#[test]
fn an_xfs_without_reflinks_is_refused_at_the_first_call() {
    let test = "dedupe_safety::an_xfs_without_reflinks_is_refused_at_the_first_call";
    let Some(own) = Own::new(Kind::Xfs, test, 512, &["-m", "reflink=0"], "") else { return };
    let dir = own.join("tree");
    fs::create_dir(&dir).expect("a directory can be made");
    for number in 0..300 {
        write(dir.join(format!("{number}")), &bytes(1, 5000));
    }
    let run = run_dedupe(&["--no-cache"], &dir).expect(3).saying("cannot share extents");
    assert!(run.stderr.lines().count() <= 4 * 127 + 1, "not a line for each file");
    assert_eq!(number(&run.summary(), "freed_bytes"), 0);
}

#[test]
fn a_read_only_mount_is_left_alone() {
    let test = "dedupe_safety::a_read_only_mount_is_left_alone";
    let Some(mut own) = Own::new(Kind::Xfs, test, 512, &[], "") else { return };
    let dir = own.join("tree");
    fs::create_dir(&dir).expect("a directory can be made");
    equal(&dir, &["a", "b", "c"], 60_000);
    own.remount_with("ro");
    let run = run_dedupe(&["--no-cache"], &dir).expect(3).saying("read-only");
    let done = run.summary();
    assert_eq!((skipped(&done, "read_only"), number(&done, "freed_bytes")), (2, 0), "{done}");
    own.remount_with("rw");
    assert_eq!(number(&dedupe(&dir), "duplicate_files"), 2);
}

#[test]
fn a_read_only_subvolume_takes_part() {
    let test = "dedupe_safety::a_read_only_subvolume_takes_part";
    let Some(own) = Own::new(Kind::Btrfs, test, 512, &[], "") else { return };
    let dir = own.join("tree");
    fs::create_dir(&dir).expect("a directory can be made");
    for name in ["one", "two"] {
        btrfs(&["subvolume", "create"], &dir.join(name));
        equal(&dir.join(name), &["a"], 60_000);
        finish(Command::new("btrfs").args(["property", "set", "-ts"]).arg(dir.join(name)).args(["ro", "true"]))
            .expect(0);
    }
    let done = dedupe(&dir);
    assert_eq!(number(&done, "duplicate_files"), 1, "{done}");
    assert!(tools::assert_same_blocks(&dir.join("one/a"), &dir.join("two/a")));
}

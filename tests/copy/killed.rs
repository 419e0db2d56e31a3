//! `pleach copy`, killed and interrupted: no half file has its final name, and the next run continues.

use super::{assert_nothing_unfinished, copy, run};
use crate::harness::*;
use crate::on_filesystems;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Starts a copy by an engine.
fn start(engine: &str, source: &Path, copied: &Path) -> Child {
    let mut command = command(["copy", "--engine", engine, "-T"]);
    command.args([source, copied]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pleach can be started")
}

/// A tree that keeps a run busy long enough to be disturbed: small files, large ones, hard links.
fn busy_tree(dir: &Path) {
    for number in 0..10 {
        let inner = dir.join(format!("dir-{number}"));
        fs::create_dir(&inner).unwrap();
        tree::crowded(&inner, 200);
        write(inner.join("large"), &bytes(number, 6 << 20));
        fs::hard_link(inner.join("large"), inner.join("linked")).unwrap();
    }
}

/// Asserts that every named file equals the file of that name in the source. If the data of a file was not on the disk
/// when the run was killed, its time differs, so the next run copies it again.
#[track_caller]
fn assert_whole(source: &Path, copied: &Path) {
    if !copied.exists() {
        return;
    }
    for file in tools::files(copied) {
        if file.to_string_lossy().contains("/.pleach-copy.") {
            continue;
        }
        let original = source.join(file.strip_prefix(copied).unwrap());
        assert_eq!(fs::read(&file).unwrap(), fs::read(&original).unwrap(), "{}", file.display());
        let permissions = |path: &Path| path.metadata().unwrap().permissions();
        assert_eq!(permissions(&file), permissions(&original), "{}", file.display());
    }
}

on_filesystems! {
    fn of_a_file_that_is_not_finished_a_killed_run_leaves_nothing(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.dir("source");
        tree::crowded(&source, 300);
        for number in 0..6 {
            write(source.join(format!("large-{number}")), &bytes(number, 8 << 20));
        }
        for (engine, moment) in
            ["buffered", "uring", "sendfile"].into_iter().flat_map(|engine| (1..5).map(move |n| (engine, n)))
        {
            let copied = fs.join(format!("{engine} {moment}"));
            let mut child = start(engine, &source, &copied);
            thread::sleep(Duration::from_millis(moment * 30));
            child.kill().unwrap();
            child.wait().unwrap();
            assert_whole(&source, &copied);
            if copied.exists() {
                assert_nothing_unfinished(&copied);
            }
        }
    }

    fn killed_at_random_it_leaves_no_half_file_and_the_next_run_goes_on(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.dir("source");
        busy_tree(&source);
        for engine in ["auto", "buffered", "uring"] {
            let begin = Instant::now();
            let copied = fs.join(engine);
            start(engine, &source, &copied).wait_with_output().unwrap();
            let whole = begin.elapsed();
            fs::remove_dir_all(&copied).unwrap();
            let mut was_there = 0;
            for moment in 1..8_u32 {
                let mut child = start(engine, &source, &copied);
                let jitter = Duration::from_nanos(u64::from(child.id()) % 1000 * whole.as_nanos() as u64 / 10_000);
                thread::sleep(whole * moment / 16 + jitter);
                child.kill().unwrap();
                child.wait().unwrap();
                assert_whole(&source, &copied);
                // Temporary names of files that will replace others appear and disappear.
                let is_own = |file: &&std::path::PathBuf| !file.to_string_lossy().contains("/.pleach-copy.");
                let files = if copied.exists() { tools::files(&copied).iter().filter(is_own).count() } else { 0 };
                assert!(files + 64 >= was_there, "what was done stays: {files} after {was_there}");
                was_there = files;
            }
            let args = ["--engine", engine, "-T"].map(std::ffi::OsString::from).into_iter();
            let args: Vec<_> = args.chain([source.clone().into(), copied.clone().into()]).collect();
            run(&args).expect(0);
            tools::assert_equal_trees(&source, &copied);
            let again = run(&args).expect(0).summary();
            assert_eq!(number(&again, "unchanged_files"), number(&again, "files"), "{again}");
            assert_nothing_unfinished(&copied);
            fs::remove_dir_all(&copied).unwrap();
        }
    }

    [xfs] fn interrupted_it_says_so_and_leaves_nothing_unfinished(fs: &Filesystem) {
        let source = fs.dir("source");
        busy_tree(&source);
        for ask_to_stop in [Signal::INT, Signal::TERM] {
            let copied = fs.join(format!("copied {ask_to_stop:?}"));
            let child = start("buffered", &source, &copied);
            let deadline = Instant::now() + Duration::from_secs(10);
            while !copied.exists() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
            running::signal(&child, ask_to_stop);
            let ended = running::end(child);
            ended.expect(130).saying("interrupted").saying("run the same command again to continue");
            assert_whole(&source, &copied);
            assert_nothing_unfinished(&copied);
            run([std::ffi::OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0);
            tools::assert_equal_trees(&source, &copied);
        }
    }

    [xfs] fn interrupted_before_anything_was_copied_it_says_so(fs: &Filesystem) {
        let (other, copied) = (fs.elsewhere(), fs.join("copied"));
        let file = other.join("file");
        write(&file, &bytes(1, 24 << 20));
        for json in [&["--json"][..], &[]] {
            let args = ["copy", "-j1", "--engine", "buffered"].iter().chain(json).map(std::ffi::OsStr::new);
            let args = args.chain([file.as_os_str(), copied.as_os_str()]);
            let run =
                tools::interrupted_at("pwrite64", 3, args).expect(130).saying("interrupted (nothing was copied)\n");
            if !json.is_empty() {
                assert_eq!(run.lines::<json_lines::Problem>()[0].code, "interrupted");
                let summary = run.summary();
                assert_eq!((number(&summary, "copied_entries"), &summary["complete"]), (0, &false.into()), "{summary}");
            }
            assert!(!copied.exists());
        }
    }

    [xfs] fn interrupted_it_counts_the_entries_that_were_copied(fs: &Filesystem) {
        let (source, copied) = (fs.dir("source"), fs.join("copied"));
        for number in 0..9 {
            fs::create_dir(source.join(format!("dir-{number}"))).unwrap();
            write(source.join(format!("dir-{number}/file")), b"x");
        }
        let args = ["copy", "-j1", "--json", "-T"].map(std::ffi::OsStr::new).into_iter();
        let args = args.chain([source.as_os_str(), copied.as_os_str()]);
        let run = tools::interrupted_at("getdents64", 7, args).expect(130);
        let kept = tools::paths(&copied).len();
        assert!(kept > 1, "{}", run.stderr);
        assert_eq!(number(&run.summary(), "copied_entries"), kept as u64, "{}", run.stderr);
        run.saying(&format!("copied and kept: {kept} entries; run the same command again to continue"));
    }

    [xfs] fn interrupted_under_a_new_name_it_shows_the_command_that_goes_on(fs: &Filesystem) {
        let other = fs.elsewhere();
        let source = other.dir("the source");
        busy_tree(&source);
        let copied = fs.join("it's new");
        let mut interrupted = command(["copy", "--engine", "buffered"]);
        let child = interrupted.args([&source, &copied]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while !copied.join("dir-1").exists() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        running::signal(&child, Signal::INT);
        let ended = running::end(child).expect(130);
        let (_, shown) = ended.stderr.split_once("; the command below continues)\n    ").expect("it shows a command");
        finish(std::process::Command::new("sh").args(["-c", shown])).expect(0);
        tools::assert_equal_trees(&source, &copied);
        assert_nothing_unfinished(&copied);
    }

    fn what_a_dead_run_left_is_cleared_and_what_a_living_one_has_is_not(fs: &Filesystem) {
        let (source, into) = (fs.dir("source"), fs.dir("into"));
        fs::create_dir(source.join("sub")).unwrap();
        write(source.join("sub/file"), b"x");
        copy(&source, &into);
        let boot: String =
            fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().replace('-', "").chars().take(10).collect();
        let (left, foreign) = (format!(".pleach-copy.{boot}.5"), ".pleach-copy.0123456789.5");
        let dirs = [into.clone(), into.join("source"), into.join("source/sub")];
        for dir in &dirs {
            for name in [left.as_str(), foreign] {
                write(dir.join(name), b"half");
            }
            std::os::unix::fs::symlink("nowhere", dir.join(format!(".pleach-copy.{boot}.6"))).unwrap();
        }
        // A living run has its directories locked, whatever its process id and namespace.
        let locked: Vec<_> = dirs.iter().map(|dir| fs::File::open(dir).unwrap()).collect();
        for dir in &locked {
            rustix::fs::flock(dir, rustix::fs::FlockOperation::LockShared).unwrap();
        }
        let count = |dir: &Path| names(dir).iter().filter(|name| name.starts_with(".pleach-copy.")).count();
        copy(&source, &into);
        assert_eq!(dirs.each_ref().map(|dir| count(dir)), [3, 3, 3]);
        drop(locked);
        copy(&source, &into);
        assert_eq!(dirs.each_ref().map(|dir| count(dir)), [0, 0, 0]);
    }

    fn killed_while_it_replaces_it_leaves_the_old_file_and_the_next_run_clears_up(fs: &Filesystem) {
        let other = fs.elsewhere();
        let (source, copied) = (other.dir("source"), fs.dir("copied"));
        for number in 0..30 {
            write(source.join(format!("file-{number}")), &bytes(number, 1 << 20));
            write(copied.join(format!("file-{number}")), b"old");
        }
        let temporary = || names(&copied).iter().filter(|name| name.starts_with(".pleach-copy.")).count();
        // In its own PID namespace, its process id is 1, which another process has here.
        let mut unshare = std::process::Command::new("unshare");
        unshare.args(["--pid", "--fork", "--kill-child", "--mount-proc", env!("CARGO_BIN_EXE_pleach"), "copy", "-T"]);
        let mut child = unshare.args([&source, &copied]).stderr(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while temporary() < 3 && Instant::now() < deadline && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        let alive = child.try_wait().unwrap().is_none();
        let two = copy(&source.join("file-1"), &copied.join("file-1"));
        assert_eq!(number(&two, "errors"), 0, "{two}");
        // Killing its parent would not wait for it, and a process that is still ending holds its locks.
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap_or_default();
        if let Some(copying) = children.trim().parse().ok().and_then(Pid::from_raw) {
            let _ = kill_process(copying, Signal::KILL); // It may have ended just now.
        }
        child.wait().unwrap();
        for number in 0..30 {
            let content = fs::read(copied.join(format!("file-{number}"))).unwrap();
            assert!(content == b"old" || content == bytes(number, 1 << 20), "{number}, {alive}");
        }
        settle();
        run([std::ffi::OsStr::new("-T"), source.as_ref(), copied.as_ref()]).expect(0);
        tools::assert_equal_trees(&source, &copied);
        assert_nothing_unfinished(&copied);
    }
}

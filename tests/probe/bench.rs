//! `pleach probe --bench`: its report and its refusals, and that it leaves no files behind. Speeds are not checked.

use super::command_as_nobody;
use crate::harness::own::Own;
use crate::harness::*;
use crate::on_filesystems;
use pleach::testing::copy::Engine;
use rustix::fs::FallocateFlags;
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The names of all engines.
fn engines() -> [&'static str; Engine::ALL.len()] {
    Engine::ALL.map(Engine::name)
}

/// Small enough for a test: with 300 MiB, the measured file has 64 MiB.
const MEBIBYTES: u64 = 400;

fn args(path: &Path) -> [&OsStr; 4] {
    ["probe".as_ref(), "--bench".as_ref(), "--json".as_ref(), path.as_ref()]
}

/// The row of an engine.
#[track_caller]
fn row<'a>(rows: &'a [Value], engine: &str, source: &str, target: &str) -> &'a Value {
    let is_it = |row: &&Value| row["engine"] == engine && row["source"] == source && row["target"] == target;
    rows.iter().find(is_it).unwrap_or_else(|| panic!("no row for {engine}, {source}, {target} in {rows:#?}"))
}

#[test]
fn every_engine_is_measured_on_every_filesystem_or_said_to_be_impossible() {
    for kind in [Kind::Xfs, Kind::Btrfs, Kind::Ext4] {
        let test = "probe::bench::every_engine_is_measured_on_every_filesystem";
        let Some(own) = Own::new(kind, test, MEBIBYTES, &[], "") else { return };
        let before = names(own.path());
        let run = pleach(args(own.path())).expect(0);
        assert_eq!(run.summary()["command"], "probe");
        assert_eq!(names(own.path()), before, "{kind:?}: nothing stays");
        let rows = run.lines_of_type("bench");
        assert_eq!(rows.len(), engines().len() * 4, "{kind:?}: {rows:#?}");
        for engine in engines() {
            for (source, files) in [("large_file", 1), ("small_files", 2000)] {
                for target in ["file", "memfd"] {
                    assert_row(row(&rows, engine, source, target), files);
                }
            }
        }
        for source in ["large_file", "small_files"] {
            for target in ["file", "memfd"] {
                for engine in ["mmap", "buffered"] {
                    assert_eq!(row(&rows, engine, source, target)["possible"], true, "{kind:?} {engine}");
                }
            }
            let clone = |target| row(&rows, "clone", source, target)["possible"].clone();
            assert_eq!((clone("file"), clone("memfd")), ((kind != Kind::Ext4).into(), false.into()), "{kind:?}");
        }
        let calls = |engine| number(row(&rows, engine, "large_file", "file"), "calls");
        let mebibytes = number(row(&rows, "buffered", "large_file", "file"), "bytes") >> 20;
        assert!(mebibytes >= 16, "{kind:?}: {mebibytes} MiB");
        assert!(calls("buffered") > mebibytes / 4, "{kind:?}: buffers are read and written one by one: {rows:#?}");
        assert!(calls("sendfile") < calls("buffered"), "{kind:?}: {rows:#?}");
        let small = |engine| number(row(&rows, engine, "small_files", "file"), "calls");
        assert!(small("uring") < small("buffered"), "{kind:?}: many files are under way at once: {rows:#?}");
        own.assert_clean();
    }
}

#[track_caller]
fn assert_row(row: &Value, files: u64) {
    assert_eq!(number(row, "files"), files);
    assert!(number(row, "bytes") >= files * 4096, "{row}");
    if row["possible"] == true {
        assert!(row["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{row}");
        assert!(row["mib_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{row}");
        // A ring needs one call for several files, and no engine needs one per byte.
        let least = if row["engine"] == "uring" { 1 } else { files };
        assert!((least..number(row, "bytes")).contains(&number(row, "calls")), "{row}");
        assert_eq!(row["why"], Value::Null, "{row}");
    } else {
        assert_eq!((&row["seconds"], &row["calls"]), (&Value::Null, &Value::Null), "{row}");
        assert!(row["why"].as_str().is_some_and(|why| why.len() > 5), "{row}");
    }
}

#[test]
fn the_table_has_a_row_for_each_engine_and_says_how_it_was_measured() {
    let test = "probe::bench::the_table_has_a_row_for_each_engine";
    let Some(own) = Own::new(Kind::Xfs, test, MEBIBYTES, &[], "") else { return };
    let run = pleach([OsStr::new("probe"), "--bench".as_ref(), own.path().as_ref()]).expect(0);
    for engine in engines() {
        let line = run.stdout.lines().find(|line| line.split_whitespace().next() == Some(engine));
        let has_figures = line.is_some_and(|line| line.contains(|c: char| c.is_ascii_digit()));
        let is_impossible = run.stdout.contains(&format!("\n{engine} into files is not possible: "));
        assert!(has_figures != is_impossible, "{engine}:\n{}", run.stdout);
    }
    for told in ["fsync", "page cache", "clone into memory is not possible", "2,000 files"] {
        assert!(run.stdout.contains(told), "{told}:\n{}", run.stdout);
    }
    assert!(run.stdout.lines().any(|line| line.starts_with("reflink")), "the answers stand above:\n{}", run.stdout);
}

#[test]
fn an_ordinary_user_measures_in_a_directory_of_their_own_and_nowhere_else() {
    let test = "probe::bench::an_ordinary_user_measures_in_a_directory_of_their_own";
    let Some(own) = Own::new(Kind::Xfs, test, MEBIBYTES, &[], "") else { return };
    for name in ["open", "closed"] {
        fs::create_dir(own.join(name)).expect("a directory can be made");
    }
    std::os::unix::fs::chown(own.join("open"), Some(65534), Some(65534)).expect("an owner can be set");
    let run = finish(&mut command_as_nobody(args(&own.join("open")))).expect(0);
    let rows = run.json();
    assert!(number(row(&rows, "buffered", "small_files", "file"), "calls") >= 2000);
    let run = finish(&mut command_as_nobody(args(&own.join("closed")))).expect(1).saying("permission denied");
    assert_only_errors(&run);
    assert_eq!((names(&own.join("open")), names(&own.join("closed"))), (Vec::new(), Vec::new()));
}

/// Asserts that nothing was measured: JSON contains only errors.
#[track_caller]
fn assert_only_errors(run: &Run) {
    assert!(run.json().iter().all(|line| line["type"] == "error"), "{}", run.stdout);
}

#[test]
fn on_a_read_only_mount_nothing_is_measured_and_that_is_said() {
    let test = "probe::bench::on_a_read_only_mount_nothing_is_measured";
    let Some(mut own) = Own::new(Kind::Xfs, test, MEBIBYTES, &[], "") else { return };
    own.remount_with("ro");
    let run = pleach(args(own.path())).expect(1).saying("read-only");
    assert_only_errors(&run);
}

on_filesystems! {
    [xfs_small] fn without_room_nothing_is_measured_and_what_is_needed_is_said(fs: &Filesystem) {
        let free = disk_space::free_bytes(fs.path());
        let ballast = File::create(fs.join("ballast")).expect("a file can be made");
        rustix::fs::fallocate(&ballast, FallocateFlags::empty(), 0, free - (20 << 20)).expect("there is room");
        let run = pleach(args(fs.path())).expect(1).saying("no space left").saying("are needed");
        assert_only_errors(&run);
        assert_eq!(names(fs.path()), ["ballast"]);
    }

    [xfs, btrfs] fn interrupted_at_any_moment_it_leaves_nothing(fs: &Filesystem) {
        let dir = fs.dir("dir");
        write(dir.join("file"), b"mine");
        for moment in [0, 200, 900, 2500] {
            let child = start(&dir);
            thread::sleep(Duration::from_millis(moment));
            running::signal(&child, Signal::INT);
            let run = running::end(child);
            assert_only_errors(&run.expect(130).saying("interrupted"));
            assert_eq!(names(&dir), ["file"], "after {moment} ms");
        }
    }

    [xfs] fn what_a_killed_run_left_goes_with_the_next_one(fs: &Filesystem) {
        let dir = fs.dir("dir");
        let mut child = start(&dir);
        child.kill().expect("a child can be killed");
        child.wait().expect("a child can be waited for");
        assert_eq!(names(&dir).len(), 1, "{:?}", names(&dir));
        // The run must not remove another user's directory with such a name, nor anything that is not a directory.
        fs::create_dir(dir.join(".pleach-bench.theirs")).expect("a directory can be made");
        std::os::unix::fs::chown(dir.join(".pleach-bench.theirs"), Some(65534), None).expect("an owner can be set");
        write(dir.join(".pleach-bench.file"), b"mine");
        let child = start(&dir);
        running::signal(&child, Signal::INT);
        child.wait_with_output().expect("a child can be waited for");
        assert_eq!(names(&dir), [".pleach-bench.file", ".pleach-bench.theirs"]);
    }

    [xfs] fn two_runs_side_by_side_leave_each_other_alone(fs: &Filesystem) {
        let dir = fs.dir("dir");
        let children = [start_beside(&dir, 0), start_beside(&dir, 1)];
        assert_eq!(names(&dir).len(), 2, "{:?}", names(&dir));
        for child in children {
            running::signal(&child, Signal::INT);
            running::end(child).expect(130);
        }
        assert_eq!(names(&dir), [""; 0]);
    }
}

/// Starts a bench, and waits until it has its directory.
#[track_caller]
fn start(dir: &Path) -> Child {
    start_beside(dir, names(dir).iter().filter(|name| is_held(dir, name)).count())
}

/// The same while this many other benches run.
#[track_caller]
fn start_beside(dir: &Path, others: usize) -> Child {
    let child =
        command(args(dir)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pleach can be started");
    let deadline = Instant::now() + Duration::from_secs(30);
    while names(dir).iter().filter(|name| is_held(dir, name)).count() <= others {
        assert!(Instant::now() < deadline, "no bench has begun in {}: {:?}", dir.display(), names(dir));
        thread::sleep(Duration::from_millis(1));
    }
    child
}

/// Whether a run holds this directory, as far as its locks show.
fn is_held(dir: &Path, name: &str) -> bool {
    use rustix::fs::{FlockOperation, flock};
    name.starts_with(".pleach-bench.")
        && dir.join(name).join("small").exists()
        && File::open(dir.join(name)).is_ok_and(|dir| flock(&dir, FlockOperation::NonBlockingLockShared).is_err())
}

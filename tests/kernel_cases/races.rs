//! Writers during the comparison: the kernel must compare and share under one lock, or the other file would change.

use super::*;
use crate::dedupe::{dedupe_with, run_dedupe};
use crate::harness::meddler::Stop;
use crate::on_filesystems;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The size of each file.
const SIZE: u64 = 4 * BLOCK;
/// The offset of the byte that a writer changes. It is early, so that the comparison has passed it soon.
const AT: u64 = 37;
/// The byte there in all files, and the one that a writer puts there for a moment.
const GOOD: u8 = b'g';
const BAD: u8 = b'b';

/// The number of requests of a test.
const REQUESTS: usize = 1000;
/// The number of requests if none has met equal files yet: a writer that waits for a processor leaves them different.
const MOST_REQUESTS: usize = 200_000;

/// Changes the byte in a file and restores it, until it must stop.
type Writer = fn(&Path, &AtomicBool);

fn by_calls(path: &Path, stop: &AtomicBool) {
    let file = File::options().write(true).open(path).expect("a file can be opened");
    while !stop.load(Ordering::Relaxed) {
        for byte in [BAD, GOOD] {
            file.write_all_at(&[byte], AT).expect("a file can be written");
        }
    }
}

fn through_a_mapping(path: &Path, stop: &AtomicBool) {
    let mut xfs_io = Command::new("xfs_io");
    let mut program = xfs_io.arg(path).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("xfs_io runs");
    let mut input = program.stdin.take().expect("stdin is a pipe");
    writeln!(input, "mmap -rw 0 {SIZE}").expect("xfs_io listens");
    let stores = format!("mwrite -S {BAD} {AT} 1\nmwrite -S {GOOD} {AT} 1\n");
    while !stop.load(Ordering::Relaxed) {
        input.write_all(stores.as_bytes()).expect("xfs_io listens");
    }
    // It ends at the end of its input.
    drop(input);
    assert!(program.wait().is_ok_and(|status| status.success()), "xfs_io ends");
}

/// The content of all files.
fn content() -> Vec<u8> {
    let mut content = bytes(1, SIZE as usize);
    content[AT as usize] = GOOD;
    content
}

/// Runs `requests` while a writer changes the file `written`. In the other files, nobody may ever see that.
#[track_caller]
fn race(dir: &Path, writer: Writer, requests: impl FnOnce()) {
    let written = dir.join("written");
    let others = ["one", "two"].map(|name| dir.join(name));
    [&written, &others[0], &others[1]].into_iter().for_each(|path| write(path, &content()));
    shapes::settle(dir);
    let flag = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&flag);
        scope.spawn(|| writer(&written, &flag));
        scope.spawn(|| {
            let files = others.each_ref().map(|path| File::open(path).expect("a file can be opened"));
            let mut byte = [0];
            while !flag.load(Ordering::Relaxed) {
                for (file, path) in files.iter().zip(&others) {
                    file.read_exact_at(&mut byte, AT).expect("a file can be read");
                    assert_eq!(byte, [GOOD], "{} is what it was", path.display());
                }
            }
        });
        requests();
    });
    // The writer restored the byte at last.
    [&written, &others[0], &others[1]].into_iter().for_each(|path| assert_on_disk(path, &content()));
}

/// A race of requests from the file that changes to one that does not.
#[track_caller]
fn race_of_requests(fs: &Filesystem, writer: Writer) {
    let dir = fs.dir("tree");
    let (written, one) = (dir.join("written"), dir.join("one"));
    let mut answers = Vec::new();
    race(&dir, writer, || {
        let mut has_met = false;
        while answers.len() < if has_met { REQUESTS } else { MOST_REQUESTS } {
            let answer = ask((&written, 0), SIZE, (&one, 0));
            has_met |= answer == Ok(DedupeStatus::Same);
            answers.push(answer);
        }
    });
    let number_of = |status: DedupeStatus| answers.iter().filter(|answer| **answer == Ok(status)).count();
    let (same, differs) = (number_of(DedupeStatus::Same), number_of(DedupeStatus::Differs));
    report(&format!("{same} requests were answered by same, {differs} by differs"));
    let other = answers.iter().find(|answer| !matches!(answer, Ok(DedupeStatus::Same | DedupeStatus::Differs)));
    assert_eq!(other, None, "another answer");
    assert!(same > 0, "no request met equal files");
}

/// A race of runs of `pleach dedupe`.
#[track_caller]
fn race_of_runs(fs: &Filesystem, writer: Writer) {
    let dir = fs.dir("tree");
    race(&dir, writer, || {
        for _ in 0..8 {
            let run = run_dedupe(&["--no-cache"], &dir);
            assert!([0, 3].contains(&run.status), "{run:?}");
        }
    });
    dedupe_with(&["--no-cache"], &dir, 0);
    let [written, one, two] = ["written", "one", "two"].map(|name| dir.join(name));
    assert!(tools::assert_same_blocks(&written, &one) && tools::assert_same_blocks(&one, &two));
}

on_filesystems! {
    // generic/630
    [xfs, btrfs] fn a_byte_written_during_the_comparison_does_not_reach_the_other_file(fs: &Filesystem) {
        race_of_requests(fs, by_calls);
    }

    // generic/630
    [xfs, btrfs] fn a_byte_stored_during_the_comparison_does_not_reach_the_other_file(fs: &Filesystem) {
        race_of_requests(fs, through_a_mapping);
    }

    // generic/630
    [xfs, btrfs] fn files_are_deduplicated_beside_one_that_is_written(fs: &Filesystem) {
        race_of_runs(fs, by_calls);
    }

    // generic/630
    [xfs, btrfs] fn files_are_deduplicated_beside_one_that_is_mapped(fs: &Filesystem) {
        race_of_runs(fs, through_a_mapping);
    }
}

//! Trees deeper than the maximal length of a path: the work of a restore for a directory does not depend on its depth.

use super::{Scene, deep};
use crate::harness::*;
use crate::on_filesystems;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// The number of calls of a restore that open something.
#[track_caller]
fn opens(scene: &Scene, more: &[&str], log: &Path) -> u64 {
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "--seccomp-bpf", "-c", "-e", "trace=openat,openat2", "-o"])
        .arg(log)
        .arg(env!("CARGO_BIN_EXE_pleach"));
    strace.args(["restore", "-q"]).args(more).arg("--target").arg(&scene.target).arg(&scene.repo).arg("latest");
    finish(strace.env_remove("PLEACH_REPO")).expect(0);
    let table = std::fs::read_to_string(log).expect("strace wrote its log");
    // `% time, seconds, usecs/call, calls, errors, syscall`.
    let lines = table.lines().filter(|line| line.contains("openat"));
    lines
        .map(|line| line.split_whitespace().nth(3).and_then(|calls| calls.parse::<u64>().ok()).expect("a number"))
        .sum()
}

on_filesystems! {
    fn the_number_of_opens_grows_with_the_number_of_directories_alone(fs: &Filesystem) {
        let log = fs.join("log");
        let mut counts = Vec::new();
        for depth in [300, if fs.kind == Kind::Xfs { 2000 } else { 900 }] {
            let dir = fs.dir(depth.to_string());
            let scene = Scene { source: dir.join("source"), repo: dir.join("repo"), target: dir.join("target") };
            std::fs::create_dir(&scene.source).unwrap();
            deep(&scene.source, depth);
            snapshot(&scene.source, &scene.repo);
            let first = opens(&scene, &[], &log);
            let again = opens(&scene, &["--delete"], &log);
            counts.push([first, again].map(|count| count as f64 / depth as f64));
        }
        for (few, many) in counts[0].into_iter().zip(counts[1]) {
            assert!(many < few * 1.5 && many < 25.0, "opens for each directory: {counts:?}");
        }
    }

    [xfs] fn few_descriptors_are_enough_for_a_deep_tree(fs: &Filesystem) {
        let other = fs.elsewhere();
        let scene = Scene { source: other.dir("source"), repo: other.join("repo"), target: fs.dir("target") };
        deep(&scene.source, 300);
        snapshot(&scene.source, &scene.repo);
        for more in ["-q", "--delete"] {
            let mut shell = Command::new("sh");
            shell.args(["-c", "ulimit -n 128 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_pleach"), "restore", more]);
            finish(shell.args(["-j", "1", "--target"]).arg(&scene.target).arg(&scene.repo).arg("latest")).expect(0);
        }
        let again = snapshot_of(&scene);
        assert_eq!(number(&again, "files"), 300);
    }
}

fn snapshot_of(scene: &Scene) -> serde_json::Value {
    let args = [OsStr::new("snapshot"), scene.target.as_ref(), scene.repo.as_ref(), "--json".as_ref()];
    pleach(args).expect(0).summary()
}

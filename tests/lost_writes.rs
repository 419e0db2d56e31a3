//! `pleach snapshot` on a disk that refuses some writes: the kernel reports that once, to the first process that syncs.
//! For `restore` see `tests/restore/failed.rs`.

use crate::harness::failing_disk::FailingDisk;
use crate::harness::mounted::Mounted;
use crate::harness::stop::{self, StopAfter};
use crate::harness::*;
use pleach::error::ErrorKind;
use pleach::monitor::{Monitor, Silent};
use std::path::Path;

const SIZE: usize = 600_000;

fn files(dir: &Path, count: u64) {
    (0..count).for_each(|number| write(dir.join(format!("file-{number:02}")), &bytes(number, SIZE)));
    settle();
}

fn scratch(test: &str) -> Option<(Filesystem, Filesystem)> {
    match (Filesystem::open(Kind::Xfs, test), Filesystem::open(Kind::XfsOther, test)) {
        (Ok(scratch), Ok(other)) => Some((scratch, other)),
        (Err(reason), _) | (_, Err(reason)) => {
            skip(test, &reason);
            None
        }
    }
}

#[test]
fn what_the_disk_lost_of_a_stopped_run_is_copied_again() {
    let test = concat!(module_path!(), "::what_the_disk_lost_of_a_stopped_run_is_copied_again");
    let Some((scratch, other)) = scratch(test) else { return };
    let disk = FailingDisk::new(&scratch);
    let (source, repo) = (other.dir("source"), disk.join("repo"));
    files(&source, 24);
    disk.breaks_after(4 << 20);
    let error = stop::take("broken", &source, &repo, &StopAfter::bytes(16 * SIZE as u64)).expect_err("it was stopped");
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    disk.is_mended();
    let summary = snapshot(&source, &repo);
    let [copied, resumed, read] = ["copied_bytes", "resumed_bytes", "read_bytes"].map(|field| number(&summary, field));
    assert_eq!(copied + resumed, 24 * SIZE as u64, "{summary}");
    assert!((1..16).contains(&number(&summary, "resumed_files")), "some were lost, and not all: {summary}");
    assert!(read >= copied + resumed, "all was read: {summary}");
    disk.remount();
    tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
}

#[test]
fn a_failed_sync_ends_the_run_and_nothing_is_taken_over_from_it() {
    let test = concat!(module_path!(), "::a_failed_sync_ends_the_run_and_nothing_is_taken_over_from_it");
    let Some((scratch, other)) = scratch(test) else { return };
    let source = other.dir("source");
    files(&source, 200);
    for stops in [false, true] {
        let disk = FailingDisk::new(&scratch);
        let repo = disk.join("repo");
        disk.breaks_after(8 << 20);
        let stopping = StopAfter::bytes(199 * SIZE as u64);
        let monitor: &dyn Monitor = if stops { &stopping } else { &Silent };
        let error = stop::take("broken", &source, &repo, monitor).expect_err("the disk is broken");
        assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
        assert_eq!(published(&repo), [""; 0], "{error}");
        disk.is_mended();
        let summary = snapshot(&source, &repo);
        assert_eq!(number(&summary, "resumed_files"), 0, "{summary}");
        disk.remount();
        tools::assert_equal_trees(&source, &inside(&repo, "latest", &source));
    }
}

/// Overlayfs does not report lost writes of the underlying filesystem through syncfs(2).
#[test]
fn a_write_that_fails_below_an_overlay_ends_the_run() {
    let test = concat!(module_path!(), "::a_write_that_fails_below_an_overlay_ends_the_run");
    let Some((scratch, other)) = scratch(test) else { return };
    let source = other.dir("source");
    files(&source, 40);
    let disk = FailingDisk::new(&scratch);
    let overlay = Mounted::overlay(&scratch.join("overlay"), &disk.join("upper"), &disk.join("work"));
    let repo = overlay.path().join("repo");
    disk.breaks_after(8 << 20);
    let error = stop::take("broken", &source, &repo, &Silent).expect_err("the disk is broken");
    assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
    assert_eq!(published(&repo), [""; 0], "{error}");
}

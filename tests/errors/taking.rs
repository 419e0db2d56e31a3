//! Snapshots that fail, or lack a file.

use super::*;
use crate::harness::meddler::Stop;
use crate::harness::mounted::Mounted;
use crate::harness::own::Own;
use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

pub(super) const SCENARIOS: [Scenario; 10] = [
    ("cannot find the source", |scene| scene.pleach("snapshot /home/ann /data/nosuch /backup")),
    ("cannot take a snapshot of a source without files", of_an_unmounted_disk),
    ("cannot open /home/ann/b", without_permission),
    ("cannot read /home/ann/b", of_a_broken_disk),
    ("cannot make a consistent copy of", of_a_file_that_changes),
    ("cannot write a test file below", to_a_full_disk),
    ("cannot write to the snapshot", to_a_disk_that_becomes_full),
    ("0.0 % of the data is shared", without_sharing),
    ("cannot freeze a source on XFS", |scene| scene.pleach("snapshot --freeze /home/ann /backup")),
    ("this pattern matched nothing", |scene| scene.pleach("snapshot --exclude *.iso /home/ann /backup")),
];

fn of_an_unmounted_disk(scene: &Scene) -> Option<Run> {
    let disk = Mounted::tmpfs(&scene.path("/mnt/disk"));
    write(disk.path().join("file"), b"x");
    scene.pleach("snapshot -q --name monday /mnt/disk /backup")?.expect(0);
    drop(disk);
    scene.pleach("snapshot /mnt/disk /backup")
}

fn without_permission(scene: &Scene) -> Option<Run> {
    fs::set_permissions(scene.path("/home/ann/b"), fs::Permissions::from_mode(0o600)).unwrap();
    scene.as_user("snapshot /home/ann /data/backup")
}

const READS: &str = "read,pread64,preadv,preadv2,sendfile,splice,copy_file_range";

fn of_a_broken_disk(scene: &Scene) -> Option<Run> {
    scene.with_fault(&format!("{READS}:error=EIO"), "/home/ann/b", "snapshot /home/ann /backup")
}

/// Each read is delayed, and meanwhile the file grows.
fn of_a_file_that_changes(_: &Scene) -> Option<Run> {
    // A clone would be of one moment.
    let scene = Scene::on(Kind::Ext4)?;
    write(scene.path("/home/ann/log"), &bytes(2, 100_000));
    let mut log = File::options().append(true).open(scene.path("/home/ann/log")).unwrap();
    let has_ended = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                log.write_all(b"another line\n").unwrap();
                thread::sleep(Duration::from_millis(2));
            }
        });
        let _stop = Stop(&has_ended);
        scene.with_fault(&format!("{READS}:delay_enter=30000"), "/home/ann/log", "snapshot /home/ann /backup")
    })
}

/// A small XFS of the test's own.
fn small() -> Option<Own> {
    Own::new(Kind::Xfs, concat!(module_path!(), "::small"), 320, &[], "")
}

/// Fills a disk until at most this many bytes are free.
fn fill(path: &Path, free: u64) {
    let ballast = File::create(path.join("ballast")).unwrap();
    let wanted = disk_space::free_bytes(path) - free;
    let (mut end, mut size) = (0, wanted);
    // The filesystem needs some of the reported space itself.
    while end < wanted && size >= 4096 {
        match rustix::fs::fallocate(&ballast, rustix::fs::FallocateFlags::empty(), end, size) {
            Ok(()) => end += size,
            Err(_) => size /= 2,
        }
    }
}

fn to_a_full_disk(_: &Scene) -> Option<Run> {
    let disk = small()?;
    let scene = Scene::new(disk.path().to_path_buf());
    scene.monday();
    fill(disk.path(), 0);
    scene.pleach("snapshot /home/ann /backup")
}

fn to_a_disk_that_becomes_full(scene: &Scene) -> Option<Run> {
    let disk = small()?;
    fs::create_dir(disk.join("backup")).unwrap();
    let _mounted = Mounted::bind(&disk.join("backup"), &scene.path("/backup"));
    fill(disk.path(), 10 << 20);
    write(scene.path("/home/ann/film"), &bytes(3, 30 << 20));
    scene.pleach("snapshot /home/ann /backup")
}

fn without_sharing(_: &Scene) -> Option<Run> {
    Scene::on(Kind::Ext4)?.pleach("snapshot --name monday --require-sharing 95 /home/ann /backup")
}

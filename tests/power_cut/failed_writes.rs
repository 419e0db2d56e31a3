//! Writes that fail once: the device reports errors while the command runs, and works again for the next run. The
//! filesystem stays mounted meanwhile, so memory still has data that the disk lacks.
//!
//! On a nearly full filesystem, the image has holes in all places where the command's data can be. Most metadata has
//! allocated places. A filesystem that lost some metadata refuses all writes, and is remounted.

use super::*;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;

/// The room for the command's data, in bytes.
const ROOM: u64 = 120 << 20;

/// The number of bytes that still reach the disk.
const WRITABLE: u64 = 6 << 20;

/// Runs a job on a failing disk, and again when the disk works. Remounts in between only if the filesystem has given
/// up. Then everything must be on the disk.
pub(super) fn once(shelf: &Shelf, mut disk: Disk<'_>, status: i32, job: &dyn Job) {
    disk.mount();
    let root = shelf.mount_point();
    let space = rustix::fs::statvfs(&root).expect("a mounted filesystem shows its space");
    reserve(&root.join("ballast"), (space.f_bavail * space.f_frsize).saturating_sub(ROOM + (24 << 20)));
    let room = root.join("room");
    reserve(&room, ROOM);
    shapes::settle(&root);
    let places = tools::extents(&room);
    disk.unmount();
    disk.allocate_but(&places);
    disk.mount();
    fs::remove_file(&room).expect("a file can be removed");
    shapes::settle(&root);
    let filler = shelf.fill_but(WRITABLE);
    job.begin();
    let first = finish(&mut job.command());
    drop(filler);
    if has_given_up(&root) {
        disk.unmount();
        disk.mount();
    }
    let mut faults = Faults::new();
    if first.status != 0 {
        run_again(status, job, &mut faults);
    }
    disk.unmount();
    disk.mount();
    job.check_completed(&mut faults);
    disk.unmount();
    assert!(faults.is_empty(), "the first run: {first:#?}\nafter the second one:\n{}", faults.join("\n"));
}

/// Whether the filesystem accepts no more writes because a metadata write was among those that failed.
fn has_given_up(root: &Path) -> bool {
    let trial = root.join("trial");
    let made = File::create_new(&trial);
    let has_given_up = made.is_err_and(|error| error.kind() == std::io::ErrorKind::ReadOnlyFilesystem);
    let _ = fs::remove_file(&trial);
    has_given_up
}

fn reserve(path: &Path, bytes: u64) {
    let file = File::create_new(path).expect("a file can be made");
    fallocate(&file, FallocateFlags::empty(), 0, bytes).expect("space can be reserved");
}

//! The space that a filesystem or files take, as the kernel or filefrag counts it.

use super::finish;
use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Free bytes of the filesystem at `path`, after a sync.
pub(crate) fn free_bytes(path: &Path) -> u64 {
    let dir = fs::File::open(path).expect("the directory can be opened");
    rustix::fs::syncfs(&dir).expect("the filesystem syncs");
    let stat = rustix::fs::fstatvfs(&dir).expect("the filesystem reports its size");
    stat.f_bfree * stat.f_frsize
}

/// Waits until the filesystem at `path` has freed the space of files that were deleted, as XFS does in the background.
#[track_caller]
pub(crate) fn await_still(path: &Path) {
    let (begun, mut last, mut looks) = (Instant::now(), free_bytes(path), 0);
    while looks < 20 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the free space changes all the time");
        thread::sleep(Duration::from_millis(20));
        let now = free_bytes(path);
        (last, looks) = (now, if now == last { looks + 1 } else { 0 });
    }
}

/// Removes a file that takes space, and waits until that can be used. Of a file that is only removed, the kernel may
/// free the space later: with its next transaction, or when a sync by another test lets go of the inode.
#[track_caller]
pub(crate) fn give_back(path: &Path) {
    let file = fs::File::options().write(true).open(path).expect("the file can be opened");
    file.set_len(0).expect("the file can be cut");
    rustix::fs::syncfs(&file).expect("the filesystem syncs");
    fs::remove_file(path).expect("the file can be removed");
}

/// The number of blocks that the files below these directories occupy on the disk, as `filefrag` sees them.
#[track_caller]
pub(crate) fn occupied_blocks(dirs: &[&Path]) -> usize {
    let mut find = Command::new("find");
    find.args(dirs).args(["-type", "f", "-exec", "filefrag", "-v", "-b4096", "{}", "+"]);
    let mut blocks = HashSet::new();
    // `   0:        0..       3:     123..     126:      4:             last,eof`
    for line in finish(&mut find).expect(0).stdout.lines() {
        let words: Vec<_> = line.split(':').map(str::trim).collect();
        if let [number, _, physical, _, ..] = words[..]
            && number.parse::<u32>().is_ok()
            && let Some((first, last)) = physical.split_once("..")
        {
            blocks.extend(first.trim().parse::<u64>().unwrap()..=last.trim().parse().unwrap());
        }
    }
    blocks.len()
}

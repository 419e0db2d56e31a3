//! Random changes of the image of a disk.

use super::random::Random;
use super::{Kind, bytes, overwrite, tools};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::path::Path;

const BLOCK: u64 = 4096;

/// Changes an image that usually has `usual` blocks, at least 100, at random, and in each way that changes its extents.
pub(crate) fn edit(kind: Kind, image: &Path, usual: u64, round: u64) {
    let mut random = Random(round);
    let mut number = |below: u64| random.below(below as usize) as u64;
    let blocks = image.metadata().unwrap().len() / BLOCK;
    for _ in 0..=number(6) {
        overwrite(image, number(blocks - 9) * BLOCK + number(3) * 100, &bytes(round, 5_000));
    }
    let file = File::options().write(true).open(image).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match number(8) {
        0 => file.set_len(number(40) + (usual * 3 / 5 + number(usual * 2 / 5)) * BLOCK).unwrap(),
        1 => overwrite(image, blocks * BLOCK + number(9_000), &bytes(round, 10_000)),
        2 => fallocate(&file, punch, number(blocks) * BLOCK, (1 + number(30)) * BLOCK).unwrap(),
        3 => fallocate(&file, FallocateFlags::empty(), number(blocks) * BLOCK, (1 + number(30)) * BLOCK).unwrap(),
        4 => fallocate(&file, FallocateFlags::KEEP_SIZE, (blocks + 2) * BLOCK, 9 * BLOCK).unwrap(),
        5 if kind == Kind::Btrfs => drop(tools::tool("btrfs", &["filesystem", "defragment", "-f", "-czstd"], image)),
        6 if kind == Kind::Btrfs => drop(tools::tool("btrfs", &["filesystem", "defragment", "-f"], image)),
        _ => {}
    }
}

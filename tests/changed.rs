//! Changed files: blocks that equal the last version share its extents, and a snapshot costs only the difference.

mod elsewhere;
mod here;
mod lists;
mod unread;

use crate::harness::own::Own;
use crate::harness::*;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;

/// Writes blocks of a file in place with new content.
fn change_blocks(path: &Path, seed: u64, blocks: impl IntoIterator<Item = u64>) -> u64 {
    let file = File::options().write(true).open(path).expect("a file can be opened");
    let mut changed = 0;
    for block in blocks {
        file.write_all_at(&bytes(seed + block, BLOCK as usize), block * BLOCK).expect("a file can be written");
        changed += 1;
    }
    changed * BLOCK
}

/// About one block in a hundred, at irregular distances.
fn one_in_hundred(size: u64) -> Vec<u64> {
    (0..size / BLOCK).filter(|block| (block.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % 100 == 0).collect()
}

/// The address of each block of a file; blocks without an address are missing.
fn places(path: &Path) -> HashMap<u64, u64> {
    let units = BLOCK / 512;
    let mut places = HashMap::new();
    for extent in tools::extents(path).iter().filter(|extent| !extent.is_unwritten() && !extent.is_inline()) {
        for unit in (0..extent.length).step_by(units as usize) {
            places.insert((extent.logical + unit) / units, extent.physical + unit);
        }
    }
    places
}

/// The number of bytes that two files share.
fn shared(a: &Path, b: &Path) -> u64 {
    let other = places(b);
    places(a).iter().filter(|(block, place)| other.get(*block) == Some(*place)).count() as u64 * BLOCK
}

/// Takes a snapshot, and returns its summary and the path of the source's file in it.
fn night(source: &Path, repo: &Path, file: &str) -> (serde_json::Value, PathBuf) {
    let summary = snapshot(source, repo);
    let name = summary["name"].as_str().expect("a name").to_string();
    let kept = inside(repo, &name, source).join(file);
    (summary, kept)
}

fn numbers<const N: usize>(summary: &serde_json::Value, fields: [&str; N]) -> [u64; N] {
    fields.map(|field| number(summary, field))
}

/// Asserts that two files have the same content, without printing it.
#[track_caller]
fn assert_same_content(a: &Path, b: &Path) {
    let read = |path: &Path| fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(read(a) == read(b), "{} and {} have the same content", a.display(), b.display());
}

/// The data and the holes of a file, according to lseek.
fn map_of_holes(path: &Path) -> Vec<(u64, u64)> {
    use rustix::fs::{SeekFrom, seek};
    let file = File::open(path).expect("a file can be opened");
    let size = file.metadata().expect("a file has a status").len();
    let (mut data, mut at) = (Vec::new(), 0);
    while let Ok(from) = seek(&file, SeekFrom::Data(at)) {
        at = seek(&file, SeekFrom::Hole(from)).expect("there is always a hole").min(size);
        data.push((from, at));
    }
    data
}

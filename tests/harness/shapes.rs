//! Files of all shapes that an extent map can have: holes, preallocations, full and partial clones, compression, tails.
//!
//! Every file is on disk when it is returned, so that its map does not depend on the time of the call. Trees with every
//! kind of *entry* are in `tree`.

use super::{Filesystem, Kind, bytes, finish, write};
use rustix::fs::{FallocateFlags, XattrFlags, fallocate, fsetxattr};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The block size of all filesystems that tests run on.
pub(crate) const BLOCK: u64 = 4096;

/// A way to make a file, from a path where nothing exists, and a number that varies the file.
struct Shape {
    name: &'static str,
    on: On,
    make: fn(&Path, u64),
}

/// The filesystems that support a shape.
#[derive(Clone, Copy, PartialEq)]
enum On {
    All,
    /// Filesystems where files can share extents.
    Reflinks,
    Btrfs,
}

const SHAPES: &[Shape] = &[
    Shape { name: "empty", on: On::All, make: |path, _| write(path, b"") },
    // Up to 2 KiB are inline on Btrfs.
    Shape { name: "tiny", on: On::All, make: |path, n| write(path, &bytes(n, 1 + n as usize * 151 % 2000)) },
    Shape { name: "one-extent", on: On::All, make: |path, n| write(path, &bytes(n, 65_536 + n as usize * 4096)) },
    Shape { name: "unaligned-tail", on: On::All, make: |path, n| write(path, &bytes(n, 40_001 + n as usize * 613)) },
    Shape { name: "hole", on: On::All, make: |path, n| create(path).set_len((n + 1) << 16).expect("a hole") },
    Shape { name: "hole-first", on: On::All, make: |path, n| put(&create(path), n, (n + 1) * 3 * BLOCK, BLOCK + 100) },
    Shape { name: "hole-last", on: On::All, make: hole_last },
    Shape { name: "far-away", on: On::All, make: far_away },
    Shape { name: "sparse", on: On::All, make: |path, n| every_other_block(path, 4 + n) },
    // Tools request 32 extents at once, and format by the first 32.
    Shape { name: "extents-31-to-34", on: On::All, make: |path, n| every_other_block(path, 31 + n % 4) },
    Shape { name: "extents-hundreds", on: On::All, make: |path, n| every_other_block(path, 290 + n) },
    Shape { name: "wider-from-the-32nd-on", on: On::All, make: wider_late },
    Shape { name: "unwritten", on: On::All, make: |path, n| reserve(&create(path), 0, (n + 1) << 16) },
    Shape { name: "unwritten-but-middle", on: On::All, make: unwritten_but_middle },
    Shape { name: "beyond-the-end", on: On::All, make: beyond_the_end },
    Shape { name: "punched", on: On::All, make: punched },
    Shape { name: "cloned", on: On::Reflinks, make: cloned },
    Shape { name: "cloned-unaligned", on: On::Reflinks, make: cloned_unaligned },
    Shape { name: "cloned-in-part", on: On::Reflinks, make: cloned_in_part },
    Shape { name: "cloned-and-overwritten", on: On::Reflinks, make: cloned_and_overwritten },
    Shape { name: "cloned-within", on: On::Reflinks, make: cloned_within },
    Shape { name: "compressed", on: On::Btrfs, make: |path, n| compressed(path, 300_000 + n * 70_001) },
    Shape { name: "compressed-and-cloned-in-part", on: On::Btrfs, make: compressed_and_cloned_in_part },
    Shape { name: "nocow", on: On::Btrfs, make: nocow },
];

/// Makes `number` files of all shapes in `dir` and returns their paths; the last ones have hostile names.
pub(crate) fn all(fs: &Filesystem, dir: &Path, number: u64) -> Vec<PathBuf> {
    let shapes: Vec<_> = SHAPES.iter().filter(|shape| possible(fs, shape.on)).collect();
    let names: [&[u8]; 4] = [b"with a space", b"line\nfeed \x1b[31mred", b"not utf-8 \xff\xfe", "ä\u{202e}".as_bytes()];
    let mut paths = Vec::new();
    for n in 0..number {
        let (round, shape) = (n / shapes.len() as u64, shapes[n as usize % shapes.len()]);
        let name = match number - n {
            left if left <= names.len() as u64 => names[left as usize - 1].to_vec(),
            _ => format!("{}.{round}", shape.name).into_bytes(),
        };
        let path = dir.join(OsStr::from_bytes(&name));
        (shape.make)(&path, round);
        paths.push(path);
    }
    settle(dir);
    paths
}

fn possible(fs: &Filesystem, on: On) -> bool {
    match on {
        On::All => true,
        On::Reflinks => fs.reflinks(),
        On::Btrfs => fs.kind == Kind::Btrfs,
    }
}

/// Writes out a filesystem.
pub(crate) fn settle(dir: &Path) {
    let dir = File::open(dir).expect("a directory can be opened");
    rustix::fs::syncfs(dir).expect("a filesystem can be synced");
}

/// A file with at least this many extents: one in eight is written, the others are preallocated, which is fast.
pub(crate) fn scattered(path: &Path, extents: u64) {
    let file = create(path);
    // Writing beyond the end would make XFS preallocate more, between the extents.
    file.set_len(extents * 2 * BLOCK).expect("a file can be all hole");
    let content = bytes(extents, BLOCK as usize);
    for n in 0..extents {
        match n % 8 {
            0 => file.write_all_at(&content, n * 2 * BLOCK).expect("a file can be written"),
            _ => reserve(&file, n * 2 * BLOCK, BLOCK),
        }
    }
    file.sync_all().expect("a file can be synced");
}

/// Writes every other block, and leaves holes between them.
pub(crate) fn every_other_block(path: &Path, blocks: u64) {
    let file = create(path);
    (0..blocks).for_each(|n| put(&file, n, n * 2 * BLOCK, BLOCK));
}

/// Clones `length` bytes at `from` of `source` to `to` in an existing file; a length of 0 means up to the source's end.
pub(crate) fn clone_range(source: &Path, from: u64, path: &Path, to: u64, length: u64) {
    let mut reflink = std::ffi::OsString::from("reflink ");
    reflink.push(source);
    reflink.push(format!(" {from} {to} {length}"));
    let mut xfs_io = Command::new("xfs_io");
    let run = finish(xfs_io.arg("-c").arg(reflink).arg(path)).expect(0);
    // The exit status does not show a refusal.
    assert!(run.stdout.starts_with("linked"), "{}{}", run.stdout, run.stderr);
}

/// A file that Btrfs stores compressed.
pub(crate) fn compressed(path: &Path, length: u64) {
    let file = create(path);
    fsetxattr(&file, "btrfs.compression", b"zstd", XattrFlags::empty()).expect("Btrfs compresses");
    let line = b"the same words again and again, so that there is something to compress\n";
    let content: Vec<u8> = line.iter().copied().cycle().take(length as usize).collect();
    file.write_all_at(&content, 0).expect("a file can be written");
    file.sync_all().expect("a file can be synced");
}

fn create(path: &Path) -> File {
    File::options().write(true).create_new(true).open(path).expect("a file can be made")
}

fn put(file: &File, seed: u64, offset: u64, length: u64) {
    file.write_all_at(&bytes(seed ^ offset, length as usize), offset).expect("a file can be written");
}

fn reserve(file: &File, offset: u64, length: u64) {
    fallocate(file, FallocateFlags::empty(), offset, length).expect("space can be reserved");
}

fn hole_last(path: &Path, n: u64) {
    let file = create(path);
    put(&file, n, 0, 2 * BLOCK);
    file.set_len((n + 4) * 2 * BLOCK + n * 77).expect("a file can end in a hole");
}

/// Makes a file with large offsets, which need wide columns.
fn far_away(path: &Path, n: u64) {
    let file = create(path);
    put(&file, n, 0, BLOCK);
    put(&file, n, (5 << 40) + n * BLOCK, 10_000);
}

/// From the 31st to the 34th extent on, offsets and lengths need wider columns than before.
fn wider_late(path: &Path, n: u64) {
    let file = create(path);
    let first = 30 + n % 4;
    for step in 0..40 {
        let offset = if step < first { 0 } else { 5 << 40 };
        // A length of six digits in units of 512 bytes; only once or twice, since it takes space.
        let length = if step == first && n < 4 { 15_000 } else { 1 };
        reserve(&file, offset + step * 20_000 * BLOCK, length * BLOCK);
    }
}

fn unwritten_but_middle(path: &Path, n: u64) {
    let file = create(path);
    reserve(&file, 0, 64 * BLOCK);
    put(&file, n, (n + 3) * BLOCK, 5 * BLOCK);
}

fn beyond_the_end(path: &Path, n: u64) {
    let file = create(path);
    put(&file, n, 0, 6000 + n);
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, (n + 8) * 4 * BLOCK).expect("space can be reserved");
}

fn punched(path: &Path, n: u64) {
    let file = create(path);
    put(&file, n, 0, 64 * BLOCK);
    file.sync_all().expect("a file can be synced");
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, flags, (n + 1) * BLOCK, 7 * BLOCK).expect("a hole can be punched");
}

/// The file that a clone shares with, next to it. It is not among the returned files, and stays.
fn original(path: &Path, n: u64, length: u64) -> PathBuf {
    // A separate name, since xfs_io's command line has no quoting that works for every name.
    let original = path.with_file_name(format!("original.{n}.{length}"));
    if !original.exists() {
        write(&original, &bytes(n, length as usize));
        File::open(&original).and_then(|file| file.sync_all()).expect("a file can be synced");
    }
    original
}

fn cloned(path: &Path, n: u64) {
    create(path);
    clone_range(&original(path, n, 32 * BLOCK), 0, path, 0, 0);
}

fn cloned_unaligned(path: &Path, n: u64) {
    create(path);
    clone_range(&original(path, n, 70_001), 0, path, 0, 0);
}

fn cloned_in_part(path: &Path, n: u64) {
    put(&create(path), n, 0, 40 * BLOCK);
    let original = original(path, n, 64 * BLOCK);
    clone_range(&original, 8 * BLOCK, path, (n % 8) * BLOCK, 4 * BLOCK);
    clone_range(&original, 16 * BLOCK, path, 20 * BLOCK, 9 * BLOCK);
}

fn cloned_and_overwritten(path: &Path, n: u64) {
    create(path);
    clone_range(&original(path, n, 64 * BLOCK), 0, path, 0, 0);
    let file = open(path);
    put(&file, n + 1, 10 * BLOCK, 3 * BLOCK);
    put(&file, n + 2, 30 * BLOCK, BLOCK);
}

fn cloned_within(path: &Path, n: u64) {
    put(&create(path), n, 0, 16 * BLOCK);
    let file = File::open(path).expect("a file can be opened");
    file.sync_all().expect("a file can be synced");
    rustix::fs::copy_file_range(&file, Some(&mut 0), open(path), Some(&mut (32 * BLOCK)), 8 * BLOCK as usize)
        .expect("a range can be copied within a file");
}

fn open(path: &Path) -> File {
    File::options().write(true).open(path).expect("a file can be opened")
}

fn compressed_and_cloned_in_part(path: &Path, n: u64) {
    let original = path.with_file_name(format!("original.compressed.{n}"));
    compressed(&original, 1 << 20);
    put(&create(path), n, 0, 40 * BLOCK);
    clone_range(&original, 40 * BLOCK, path, 8 * BLOCK, 4 * BLOCK);
    clone_range(&original, 3 * BLOCK, path, 32 * BLOCK, 50 * BLOCK);
}

fn nocow(path: &Path, n: u64) {
    create(path);
    finish(Command::new("chattr").arg("+C").arg(path)).expect(0);
    put(&open(path), n, 0, 100_000 + n);
}

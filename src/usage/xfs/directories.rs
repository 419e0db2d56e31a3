//! The blocks that directories of XFS give back when they lose entries, although the directories stay.
//!
//! Few entries are in the inode itself. More are in one block, or in several with a block that lists their hashes. When
//! the last entry of a block goes, XFS frees the block; when the rest fits into a smaller form, XFS changes the form.
//! The kernel reports the place of each entry (`d_off`), so the result is known. Only directories with more than about
//! 500 entries have further blocks, which are not predicted.
//!
//! Source: `fs/xfs/libxfs/xfs_dir2_leaf.c`, `xfs_dir2_block.c`, `xfs_dir2_sf.c`.

use crate::sys::xfs::{self, Geometry};
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::{Errno, Result};
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The bytes of an inode before its content (`struct xfs_dinode`), and of the header of a block with entries.
const INODE_HEADER: u64 = 176;
const BLOCK_HEADER: u64 = 64;
/// The bytes of an entry in a list of hashes, and of the end of such a list.
const HASH: u64 = 8;
const TAIL: u64 = 8;
/// Inode numbers above this one take eight bytes in an inode, others four.
const SHORT: u64 = 0xffff_ffff;

/// The space that is freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::usage) struct Freed {
    pub(in crate::usage) bytes: u64,
    /// A directory has a form that is not predicted.
    pub(in crate::usage) is_estimate: bool,
}

/// What the directories around these absolute paths free on the filesystem of `fd`, if the paths are deleted.
pub(in crate::usage) fn freed<'p>(fd: impl AsFd, paths: impl Iterator<Item = &'p PathBuf>) -> Freed {
    let Ok((geometry, status)) = xfs::geometry(&fd).and_then(|geometry| Ok((geometry, rustix::fs::fstat(&fd)?))) else {
        return Freed { is_estimate: true, ..Freed::default() };
    };
    let paths: HashSet<&Path> = paths.map(PathBuf::as_path).collect();
    let mut losing: BTreeMap<&Path, HashSet<&OsStr>> = BTreeMap::new();
    for path in &paths {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
        if !parent.ancestors().any(|above| paths.contains(above)) {
            losing.entry(parent).or_default().insert(name);
        }
    }
    let mut freed = Freed::default();
    for (parent, names) in losing {
        match of_directory(&geometry, status.st_dev, parent, &names) {
            Ok(Some(bytes)) => freed.bytes += bytes,
            Ok(None) | Err(_) => freed.is_estimate = true,
        }
    }
    freed
}

/// The bytes that a directory frees without these entries. `None` if that is not predicted.
fn of_directory(geometry: &Geometry, dev: u64, path: &Path, names: &HashSet<&OsStr>) -> Result<Option<u64>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty())?;
    let status = rustix::fs::fstat(&fd)?;
    if status.st_dev != dev || status.st_blocks == 0 {
        return Ok(Some(0));
    }
    let inode = xfs::inode(&fd, status.st_ino)?.ok_or(Errno::STALE)?;
    if !geometry.checksums || inode.attribute_extents() > 0 {
        return Ok(None);
    }
    let room = match inode.content_room {
        0 => u64::from(geometry.inode_size).saturating_sub(INODE_HEADER),
        room => room.into(),
    };
    let mut entries = Entries::new(geometry.directory_block_size.into());
    let mut at = BLOCK_HEADER;
    for entry in Dir::read_from(&fd)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        entries.add(at, name, entry.ino(), names.contains(OsStr::from_bytes(name)));
        at = entry.offset().cast_unsigned().saturating_mul(8);
    }
    Ok(entries.freed(status.st_blocks.cast_unsigned() * 512, room))
}

/// The sums over the entries of a directory.
struct Entries {
    /// The size of a block.
    block: u64,
    /// The blocks with entries, now and later, and the last one that was counted of each.
    now: u64,
    later: u64,
    last: [Option<u64>; 2],
    /// The remaining entries, with `.` and `..`; where the last one in the first block ends.
    count: u64,
    end: u64,
    /// What the remaining entries take in an inode, with short numbers, and whether a number is long.
    names: u64,
    is_long: bool,
}

impl Entries {
    fn new(block: u64) -> Entries {
        Entries { block, now: 0, later: 0, last: [None; 2], count: 0, end: 0, names: 0, is_long: false }
    }

    /// Adds the next entry, at this offset.
    fn add(&mut self, at: u64, name: &[u8], inode: u64, goes: bool) {
        let block = at / self.block.max(1);
        if self.last[0] != Some(block) {
            self.now += 1;
            self.last[0] = Some(block);
        }
        if goes {
            return;
        }
        if self.last[1] != Some(block) {
            self.later += 1;
            self.last[1] = Some(block);
        }
        self.count += 1;
        if block == 0 {
            // Number, length of the name, name, type, tag.
            self.end = at + (8 + 1 + name.len() as u64 + 1 + 2).next_multiple_of(8);
        }
        if name != b"." {
            self.is_long |= inode > SHORT;
        }
        if name != b"." && name != b".." {
            // Length of the name, offset, name, type.
            self.names += 1 + 2 + name.len() as u64 + 1;
        }
    }

    /// The bytes that are freed. `allocated` are the bytes that the directory takes now, `room` those in its inode.
    fn freed(&self, allocated: u64, room: u64) -> Option<u64> {
        let number = if self.is_long { 8 } else { 4 };
        let short = 2 + number + self.names + self.count.saturating_sub(2) * number;
        let in_inode = short <= room;
        let blocks = match allocated / self.block.max(1) {
            // One block with entries and hashes.
            1 if self.now == 1 => u64::from(!in_inode),
            // Blocks with entries, and one with hashes.
            blocks if blocks == self.now + 1 => {
                let fits = self.end + self.count * HASH + TAIL <= self.block;
                if self.later > 1 || !fits { self.later + 1 } else { u64::from(!in_inode) }
            }
            _ => return None,
        };
        Some(allocated.saturating_sub(blocks * self.block))
    }
}

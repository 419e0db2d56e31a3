//! Finds the checksums of a file's blocks, by the addresses of its extents, in the tree in which Btrfs keeps them.

use crate::extents::address_space::SpaceId;
use crate::extents::layout::{self, Way};
use crate::extents::piece::Piece;
use crate::extents::ranges;
use crate::sys::btrfs::checksum_format;
use crate::sys::btrfs::checksums::{self, Format, Sum};
use rustix::io::{Errno, Result};
use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// The known facts about a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Its checksum.
    Sum(Sum),
    /// It has data without a checksum of its own: compressed, or written without checksums.
    Unsummed,
    /// It has no data on the disk.
    Empty,
}

/// The format of the checksums of a filesystem with blocks of this length. `None` if they cannot be read: by users
/// other than root, in most containers, and on filesystems other than Btrfs.
pub(super) fn format(fd: BorrowedFd<'_>, block: u64) -> Option<Format> {
    let format = checksum_format(fd).ok().flatten().filter(|format| format.block() == block)?;
    let first_block = std::slice::from_ref(&(0..1));
    checksums::find(fd, &format, first_block, |_, _| {}).ok()?;
    Some(format)
}

/// The number of bytes of a file that are looked up at once.
const WINDOW: u64 = 4 << 20;
/// The windows to remember: those of the two files that are compared, before and behind a match.
const WINDOWS: usize = 4;

/// Looks up blocks, and remembers the last ones: files may lie in many small extents, which are found together.
#[derive(Default)]
pub(super) struct Lookup {
    windows: VecDeque<Window>,
}

struct Window {
    file: u32,
    start: u64,
    blocks: Vec<Block>,
}

impl Lookup {
    /// The known facts about at most `most` blocks of a file from the offset `at` on, at least one. Dirty pages are
    /// ignored: their blocks are as they are on the disk.
    pub(super) fn blocks(
        &mut self,
        (file, fd): (u32, BorrowedFd<'_>),
        way: Way,
        format: &Format,
        at: u64,
        most: usize,
    ) -> Vec<Block> {
        let number = |window: &Window| usize::try_from(at.checked_sub(window.start)? / format.block()).ok();
        let has = |window: &Window| window.file == file && number(window).is_some_and(|at| at < window.blocks.len());
        if let Some(known) = self.windows.iter().position(has) {
            let window = self.windows.remove(known);
            self.windows.extend(window);
        } else {
            // If the items cannot be read after all, all blocks are read instead.
            let blocks = find(fd, way, format, at..at.saturating_add(WINDOW));
            let blocks = blocks.unwrap_or_else(|_| vec![Block::Unsummed; (WINDOW / format.block()) as usize]);
            if self.windows.len() >= WINDOWS {
                self.windows.pop_front();
            }
            self.windows.push_back(Window { file, start: at, blocks });
        }
        let known = self.windows.back().and_then(|window| window.blocks.get(number(window)?..));
        known.map_or_else(Vec::new, |known| known[..known.len().min(most)].to_vec())
    }
}

/// The known facts about each block of a range of a file.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`.
fn find(file: BorrowedFd<'_>, way: Way, format: &Format, range: Range<u64>) -> Result<Vec<Block>> {
    let (inode, space) = way.items.zip(way.space).ok_or(Errno::PERM)?;
    let pieces = layout::items(file, inode, Some(space), range.start, range.end)?;
    let places: Vec<_> = pieces.iter().filter_map(|piece| place(piece, space, format)).collect();
    let mut found = Vec::new();
    checksums::find(file, format, &ranges::list(places), |address, sum| found.push((address, sum)))?;
    let mut blocks = vec![Block::Empty; (range.end - range.start).div_ceil(format.block()) as usize];
    for piece in &pieces {
        let first = ((piece.logical - range.start) / format.block()) as usize;
        let behind = (piece.end() - range.start).div_ceil(format.block()) as usize;
        let blocks = &mut blocks[first..behind];
        blocks.fill(Block::Unsummed);
        let Some(place) = place(piece, space, format) else { continue };
        let known = &found[found.partition_point(|(address, _)| *address < place.start)..];
        for (address, sum) in known.iter().take_while(|(address, _)| *address < place.end) {
            if let Some(block) = blocks.get_mut(((address - place.start) / format.block()) as usize) {
                *block = Block::Sum(*sum);
            }
        }
    }
    Ok(blocks)
}

/// The addresses of a piece's bytes, if its blocks have checksums of their own.
fn place(piece: &Piece, space: SpaceId, format: &Format) -> Option<Range<u64>> {
    let place = piece.place_in(space).filter(|_| !piece.encoded)?;
    let is_aligned = piece.logical.is_multiple_of(format.block()) && place.start.is_multiple_of(format.block());
    is_aligned.then_some(place)
}

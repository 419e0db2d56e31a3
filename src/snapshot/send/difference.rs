//! Where two files on one filesystem differ: by the addresses of their data, without reading any of it. Where files
//! cannot share data, equal data has two addresses, so both files are read.

use crate::extents::address_space::{AddressSpace, SpaceId};
use crate::extents::layout::{self, Way};
use crate::extents::piece::Piece;
use crate::extents::ranges::{self, Bytes};
use crate::fs::pread::read_full;
use crate::fs::sparse::{self, Segment};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// How much is read at once, and in which units data is compared, in bytes.
const CHUNK: usize = 256 << 10;
const BLOCK: usize = 4 << 10;
/// Files from this size on, in bytes, are read to find their differences.
const LARGE: u64 = 1 << 20;

/// A file of the new snapshot.
pub(super) struct New<'f> {
    pub(super) fd: BorrowedFd<'f>,
    pub(super) size: u64,
    pub(super) space: Option<SpaceId>,
    pub(super) pieces: &'f [Piece],
    /// The ranges that are not holes.
    pub(super) written: &'f [Bytes],
}

/// How a file differs from another one.
pub(super) struct Difference {
    /// Data that the other one lacks.
    pub(super) data: Vec<Bytes>,
    /// Holes where the other one has data.
    pub(super) holes: Vec<Bytes>,
}

impl New<'_> {
    /// How the file differs from `old`. `reads`: equal data may have two addresses.
    pub(super) fn difference(&self, old: &OwnedFd, reads: bool) -> rustix::io::Result<Difference> {
        let there = written(old.as_fd(), self.size)?;
        let data = if reads {
            if self.size < LARGE { self.written.to_vec() } else { self.by_content(old)? }
        } else {
            self.by_address(old)?
        };
        Ok(Difference { data, holes: ranges::subtract(&there, self.written) })
    }

    fn by_address(&self, old: &OwnedFd) -> rustix::io::Result<Vec<Bytes>> {
        let (space, before) = map(old, self.size)?;
        if space.is_none() || space != self.space {
            return Ok(self.written.to_vec());
        }
        let covered = ranges::list(self.pieces.iter().map(|piece| piece.logical..piece.end()).collect());
        let mut data = of(&before, self.pieces);
        data.extend(ranges::subtract(self.written, &covered));
        Ok(ranges::list(data))
    }

    fn by_content(&self, old: &OwnedFd) -> rustix::io::Result<Vec<Bytes>> {
        let (mut ours, mut theirs) = (vec![0; CHUNK], vec![0; CHUNK]);
        let mut data = Vec::new();
        for range in self.written {
            let mut at = range.start;
            while at < range.end {
                let length = (range.end - at).min(CHUNK as u64) as usize;
                let ours = &mut ours[..length];
                let got = read_full(self.fd, ours, at)?;
                // What the old file lacks is not equal.
                let known = read_full(old, &mut theirs[..length], at)?.min(got);
                let blocks = ours.chunks(BLOCK).zip(theirs[..length].chunks(BLOCK)).enumerate();
                for (number, (ours, theirs)) in blocks {
                    let from = number * BLOCK;
                    if from + ours.len() > known || ours != theirs {
                        let from = at + from as u64;
                        ranges::push(&mut data, from..from + ours.len() as u64);
                    }
                }
                at += length as u64;
            }
        }
        Ok(data)
    }
}

/// The ranges in which pieces of a new file have other data than those of an old one. Both are in the order of their
/// offsets.
fn of(old: &[Piece], new: &[Piece]) -> Vec<Bytes> {
    let mut differing = Vec::new();
    let mut rest = old.iter().peekable();
    for piece in new {
        let mut at = piece.logical;
        while at < piece.end() {
            while rest.next_if(|old| old.end() <= at).is_some() {}
            let end = match rest.peek() {
                Some(old) if old.logical <= at => {
                    let end = old.end().min(piece.end());
                    if !is_same(old, piece) {
                        ranges::push(&mut differing, at..end);
                    }
                    end
                }
                Some(old) => {
                    let end = old.logical.min(piece.end());
                    ranges::push(&mut differing, at..end);
                    end
                }
                None => {
                    ranges::push(&mut differing, at..piece.end());
                    piece.end()
                }
            };
            at = end;
        }
    }
    differing
}

/// Whether the two have the same data where both have a byte.
fn is_same(old: &Piece, new: &Piece) -> bool {
    let (Some(from), Some(to)) = (old.extent, new.extent) else { return false };
    if old.encoded != new.encoded {
        return false;
    }
    if old.encoded {
        // Only the address of the whole extent is known, and not which part of it this is.
        return from.is_same_place(to) && (old.logical, old.length) == (new.logical, new.length);
    }
    // The offset in the extent, for a common byte of the file.
    let at = old.logical.max(new.logical);
    let place = |piece: &Piece| piece.offset + (at - piece.logical);
    from.plus(place(old)).is_same_place(to.plus(place(new)))
}

/// The ranges of a file that are not holes.
pub(super) fn written(fd: BorrowedFd<'_>, size: u64) -> rustix::io::Result<Vec<Bytes>> {
    let mut written = Vec::new();
    for segment in sparse::of(fd, size) {
        if let Segment::Data { offset, length } = segment? {
            ranges::push(&mut written, offset..offset + length);
        }
    }
    Ok(written)
}

/// The pieces of the first `size` bytes of a file, and the space of their addresses. No pieces where addresses show
/// nothing: some of these filesystems have no extent maps (tmpfs, FUSE).
pub(super) fn map(fd: &OwnedFd, size: u64) -> rustix::io::Result<(Option<SpaceId>, Vec<Piece>)> {
    let Some(space) = AddressSpace::of(fd)?.map(AddressSpace::id) else { return Ok((None, Vec::new())) };
    let pieces = layout::all_pieces(fd.as_fd(), &mut Way::finest(fd.as_fd(), Some(space), false), &(0..size))?;
    Ok((Some(space), pieces))
}

//! Rewrites ranges with their own content, so that the extents below them can be freed.
//!
//! Btrfs frees an extent only as a whole: one block in use keeps all of it. If little of an extent is in use, writing
//! that part again costs less space than keeping the extent. XFS frees single blocks and never needs this. Which files
//! are involved, and how to share the rest, is decided by the callers.

use super::copy::CopyError;
use crate::extents::address_space::SpaceId;
use crate::extents::layout::{self, Way};
use crate::extents::piece::Piece;
use crate::extents::places::Places;
use crate::extents::ranges::Bytes;
use crate::fs::pread::{read_exact, write_all};
use crate::monitor::Monitor;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};

/// How much is copied at once.
const BUFFER: u64 = 1 << 20;

/// Why a rewrite stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The file that is read.
    Source(Errno),
    /// The file that is written.
    Destination(Errno),
    /// The monitor asked to stop.
    Cancelled,
}

impl Failure {
    /// The error, whichever side it belongs to.
    pub(crate) fn errno(self) -> Errno {
        match self {
            Failure::Source(errno) | Failure::Destination(errno) => errno,
            Failure::Cancelled => Errno::CANCELED,
        }
    }
}

impl From<Failure> for CopyError {
    fn from(failure: Failure) -> CopyError {
        match failure {
            Failure::Source(errno) => CopyError::Source(errno),
            Failure::Destination(errno) => CopyError::Destination(errno),
            Failure::Cancelled => CopyError::Source(Errno::CANCELED),
        }
    }
}

/// Whether to rewrite `rest` bytes so that an extent of `whole` bytes is freed: if they are less than half of it.
pub(crate) fn pays(rest: u64, whole: u64) -> bool {
    rest < whole.div_ceil(2)
}

/// Writes a range of a file again with its own content.
pub(crate) fn in_place(file: BorrowedFd<'_>, range: &Bytes) -> Result<(), Failure> {
    copy((file, range.start), (file, range.start), range.end - range.start)
}

/// Copies bytes from a place in one file to a place in another, or in the same file.
pub(crate) fn copy(
    (source, from): (impl AsFd, u64),
    (destination, to): (impl AsFd, u64),
    length: u64,
) -> Result<(), Failure> {
    let mut buffer = vec![0; BUFFER.min(length) as usize];
    let mut done = 0;
    while done < length {
        let part = &mut buffer[..BUFFER.min(length - done) as usize];
        read_exact(&source, part, from + done).map_err(Failure::Source)?;
        write_all(&destination, part, to + done).map_err(Failure::Destination)?;
        done += part.len() as u64;
    }
    Ok(())
}

/// An extent of the replaced file.
struct Extent {
    /// Its range on the disk.
    start: u64,
    end: u64,
    encoded: bool,
    /// Its length on the disk; for a compressed extent, the bytes that the replaced file reads from it.
    whole: u64,
    /// Bytes of it that the new file uses.
    kept: u64,
    /// Whether only the replaced file holds it.
    alone: bool,
}

/// Rewrites the parts of `new` that would keep extents of `old`, the frozen clone of the file that `new` replaces.
/// `alone` has the places that only the replaced file holds. An extent that something else holds too, a snapshot or
/// another file, stays in any case, so its parts stay shared.
///
/// # Errors
/// `Source` for `old`, `Destination` for `new`.
pub(crate) fn release(
    new: BorrowedFd<'_>,
    size: u64,
    old: BorrowedFd<'_>,
    alone: &Places,
    monitor: &dyn Monitor,
) -> Result<(), Failure> {
    // Before its dirty pages are written, the clone would still show all of its old extents.
    layout::settle(new).map_err(Failure::Destination)?;
    let space = Some(alone.space());
    let (mut way, mut own_way) = (Way::finest(old, space, true), Way::finest(new, space, true));
    let pieces = layout::all_pieces(old, &mut way, &(0..u64::MAX)).map_err(Failure::Source)?;
    let own = layout::all_pieces(new, &mut own_way, &(0..size)).map_err(Failure::Destination)?;
    let mut extents = extents(pieces, way, alone);
    for piece in &own {
        if let Some(number) = find(&extents, piece, alone.space()) {
            extents[number].kept += piece.length;
        }
    }
    let goes = |extent: &Extent| extent.alone && pays(extent.kept, extent.whole);
    for piece in &own {
        if find(&extents, piece, alone.space()).is_some_and(|number| goes(&extents[number])) {
            if monitor.is_cancelled() {
                return Err(Failure::Cancelled);
            }
            // Both sides are the new file.
            in_place(new, &(piece.logical..piece.end().min(size)))
                .map_err(|failure| Failure::Destination(failure.errno()))?;
        }
    }
    Ok(())
}

/// The extents of these pieces, in the order of their addresses.
fn extents(mut pieces: Vec<Piece>, way: Way, alone: &Places) -> Vec<Extent> {
    if !way.is_exact() {
        layout::join_neighbours(&mut pieces);
    }
    let space = alone.space();
    pieces.sort_unstable_by_key(|piece| (piece.extent_in(space), piece.encoded));
    let mut extents: Vec<Extent> = Vec::new();
    for piece in &pieces {
        let (Some(address), Some(start)) = (piece.extent_in(space), piece.start()) else { continue };
        let length = if piece.encoded { 1 } else { piece.length };
        let is_alone = alone.count(start, length, piece.encoded) == length;
        match extents.last_mut() {
            Some(last) if (last.start, last.encoded) == (address, piece.encoded) => {
                last.alone &= is_alone;
                last.whole += if piece.encoded { piece.length } else { 0 };
            }
            _ => extents.push(Extent {
                start: address,
                end: address + piece.disk,
                encoded: piece.encoded,
                whole: if piece.encoded { piece.length } else { piece.disk },
                kept: 0,
                alone: is_alone,
            }),
        }
    }
    extents
}

/// The number of the extent that holds a piece.
fn find(extents: &[Extent], piece: &Piece, space: SpaceId) -> Option<usize> {
    let start = space.offset(piece.start()?)?;
    let number = extents.partition_point(|extent| extent.start <= start).checked_sub(1)?;
    let extent = &extents[number];
    let is_in = if extent.encoded { start == extent.start } else { start < extent.end };
    (is_in && extent.encoded == piece.encoded).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::layout::Inode;

    fn piece(logical: u64, length: u64, extent: u64, offset: u64, disk: u64) -> Piece {
        Piece { offset, disk, shared: true, ..Piece::plain(logical, length, SpaceId::assumed().at(extent)) }
    }

    #[test]
    fn pieces_are_found_in_their_extents() {
        let space = SpaceId::assumed();
        let old = vec![piece(0, 10, 500, 0, 100), piece(20, 80, 500, 20, 100), piece(100, 50, 100, 0, 50)];
        let way = Way { space: Some(space), items: Some(Inode { root: 5, number: 257 }) };
        let extents = extents(old, way, &Places::new(space));
        let found: Vec<_> = extents.iter().map(|extent| (extent.start, extent.whole, extent.alone)).collect();
        assert_eq!(found, [(100, 50, false), (500, 100, false)]);
        assert_eq!(find(&extents, &piece(0, 5, 500, 95, 100), space), Some(1));
        assert_eq!(find(&extents, &piece(0, 5, 600, 0, 5), space), None);
        assert_eq!(find(&extents, &piece(0, 5, 50, 0, 5), space), None);
    }
}

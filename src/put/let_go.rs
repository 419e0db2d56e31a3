//! On Btrfs an extent is freed as a whole: a few blocks that the new file shares with the replaced one would keep all of the
//! extents that these lie in. So it is decided by extent, as for snapshots (`delta/share.rs`): where less than half of one would
//! still be in use, that is written anew, and the extent goes with the replaced file. Extents that something else holds
//! as well, a snapshot or another file, stay in any case, and so stay shared.

use super::account::Addresses;
use super::{Failure, Job};
use crate::extents::layout::{self, Piece, Way};
use crate::fs::pread::{read_exact, write_all};
use crate::sys::fiemap;
use std::os::fd::BorrowedFd;

/// How much is rewritten at once.
const BUFFER: u64 = 1 << 20;

/// An extent of the replaced file.
struct Extent {
    /// Its places on the disk.
    start: u64,
    end: u64,
    encoded: bool,
    /// Bytes that it takes, of compressed ones those that are read from it.
    whole: u64,
    /// Bytes that the new file would keep of it.
    kept: u64,
    /// Whether only the replaced file holds it.
    alone: bool,
}

/// Writes anew what little `out` has of extents of `old`, the frozen clone of the file that it replaces, of which `alone` is
/// what nothing else held.
pub(super) fn let_go(
    out: BorrowedFd<'_>,
    size: u64,
    old: BorrowedFd<'_>,
    alone: &Addresses,
    job: &Job<'_>,
) -> Result<(), Failure> {
    // What has not been written yet does not show: the clone would seem to have all of its extents still.
    fiemap::extents(out, true).next().transpose().map_err(Failure::Output)?;
    let (mut way, mut own_way) = (Way::finest(old, true), Way::finest(out, true));
    let pieces = layout::all_pieces(old, &mut way, &(0..u64::MAX)).map_err(Failure::Base)?;
    let own = layout::all_pieces(out, &mut own_way, &(0..size)).map_err(Failure::Output)?;
    let mut extents = extents(pieces, way, alone);
    for piece in &own {
        if let Some(number) = find(&extents, piece) {
            extents[number].kept += piece.length;
        }
    }
    let is_let_go = |extent: &Extent| extent.alone && extent.kept < extent.whole.div_ceil(2);
    for piece in &own {
        if find(&extents, piece).is_some_and(|number| is_let_go(&extents[number])) {
            if job.monitor.is_cancelled() {
                return Err(Failure::Interrupted);
            }
            rewrite(out, piece.logical, piece.end().min(size))?;
        }
    }
    Ok(())
}

/// The extents that these pieces lie in, in the order of their places.
fn extents(mut pieces: Vec<Piece>, way: Way, alone: &Addresses) -> Vec<Extent> {
    if way == Way::Fiemap {
        layout::join_neighbours(&mut pieces);
    }
    pieces.sort_unstable_by_key(|piece| (piece.extent, piece.encoded));
    let mut extents: Vec<Extent> = Vec::new();
    for piece in &pieces {
        let length = if piece.encoded { 1 } else { piece.length };
        let is_alone = alone.count(place(piece), length, piece.encoded) == length;
        match extents.last_mut() {
            Some(last) if (last.start, last.encoded) == (piece.extent, piece.encoded) => {
                last.alone &= is_alone;
                last.whole += if piece.encoded { piece.length } else { 0 };
            }
            _ => extents.push(Extent {
                start: piece.extent,
                end: piece.extent + piece.disk,
                encoded: piece.encoded,
                whole: if piece.encoded { piece.length } else { piece.disk },
                kept: 0,
                alone: is_alone,
            }),
        }
    }
    extents
}

/// The extent that a piece lies in.
fn find(extents: &[Extent], piece: &Piece) -> Option<usize> {
    let place = place(piece);
    let number = extents.partition_point(|extent| extent.start <= place).checked_sub(1)?;
    let extent = &extents[number];
    let is_in = if extent.encoded { place == extent.start } else { place < extent.end };
    (is_in && extent.encoded == piece.encoded).then_some(number)
}

/// Where it begins; of a compressed one, where its extent does.
fn place(piece: &Piece) -> u64 {
    if piece.encoded { piece.extent } else { piece.extent + piece.offset }
}

/// Writes a range of a file anew with its own content.
fn rewrite(out: BorrowedFd<'_>, start: u64, end: u64) -> Result<(), Failure> {
    let mut buffer = vec![0; BUFFER.min(end - start) as usize];
    let mut at = start;
    while at < end {
        let step = (end - at).min(BUFFER) as usize;
        read_exact(out, &mut buffer[..step], at).map_err(Failure::Output)?;
        write_all(out, &buffer[..step], at).map_err(Failure::Output)?;
        at += step as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(logical: u64, length: u64, extent: u64, offset: u64, disk: u64) -> Piece {
        Piece { logical, length, extent, offset, disk, encoded: false, shared: true }
    }

    #[test]
    fn pieces_are_found_in_the_extents_they_lie_in() {
        let old = vec![piece(0, 10, 500, 0, 100), piece(20, 80, 500, 20, 100), piece(100, 50, 100, 0, 50)];
        let extents = extents(old, Way::Items { root: 5, inode: 257 }, &Addresses::default());
        let told: Vec<_> = extents.iter().map(|extent| (extent.start, extent.whole, extent.alone)).collect();
        assert_eq!(told, [(100, 50, false), (500, 100, false)]);
        assert_eq!(find(&extents, &piece(0, 5, 500, 95, 100)), Some(1));
        assert_eq!(find(&extents, &piece(0, 5, 600, 0, 5)), None);
        assert_eq!(find(&extents, &piece(0, 5, 50, 0, 5)), None);
    }
}

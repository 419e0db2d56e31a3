//! The extents of Btrfs files as a whole. FIEMAP shows the parts that a file uses; Btrfs frees an extent only as a
//! whole.

use crate::extents::address_space::SpaceId;
use crate::extents::layout;
use crate::extents::map::Map;
use crate::extents::piece::Piece;
use crate::sys::btrfs::logical;
use rustix::io::{Errno, Result};
use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;

/// The extents that a map shows parts of, each once and with its whole length. `None` if they cannot be read: only root
/// can read them.
pub(super) fn of(file: BorrowedFd<'_>, map: &Map, space: SpaceId) -> Option<Map> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let extents = layout::whole_extents(file).ok()?;
    let mut pieces = Vec::with_capacity(map.pieces().len());
    let (mut used, mut shared) = (BTreeSet::new(), BTreeSet::new());
    for piece in map.pieces() {
        let Some(mut place) = piece.place_in(space) else { continue };
        // FIEMAP joins adjacent extents.
        while place.start < place.end {
            let extent = extents.range(..=place.start).next_back();
            let Some((&address, extent)) = extent.filter(|(start, extent)| **start + extent.disk > place.start) else {
                // The extent of another file, in a plan.
                let length = place.end - place.start;
                let extent = Some(space.at(place.start));
                pieces.push(Piece { extent, offset: 0, length, disk: length, ..*piece });
                break;
            };
            used.insert(address);
            if piece.shared {
                shared.insert(address);
            }
            place.start = if piece.encoded { place.end } else { address + extent.disk };
        }
    }
    for address in used {
        let Some(extent) = extents.get(&address) else { continue };
        // The kernel also marks an extent as shared if one file holds it in several parts.
        let is_only_ours = || references(file, address).is_ok_and(|all| all <= extent.references);
        let is_shared = shared.contains(&address) && !(extent.references > 1 && is_only_ours());
        let whole = Piece::plain(0, extent.disk, space.at(address));
        pieces.push(Piece { shared: is_shared, encoded: true, ..whole });
    }
    Some(Map::from_pieces(pieces))
}

/// The number of references to any part of an extent, in the whole filesystem.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`.
pub(super) fn references(file: BorrowedFd<'_>, extent: u64) -> Result<u64> {
    let ask = || logical::logical_to_inodes(file, extent);
    let references = match ask() {
        // Not yet in the extent tree; a commit adds it.
        Err(Errno::NOENT) => {
            rustix::fs::syncfs(file)?;
            ask()?
        }
        result => result?,
    };
    Ok(references.total())
}

//! Whether files lie in the same place, for files with any number of extents: these are streamed, and never held.
//! `map` holds them, and answers more questions.

use super::address_space::SpaceId;
use super::extent::{Extent, ExtentFlags};
use super::map::{is_alike, standing_at};
use super::piece::Piece;
use crate::sys::fiemap::{self, Extents};
use rustix::io::Result;
use std::os::fd::BorrowedFd;

/// The place of all data of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    space: SpaceId,
    digest: [u8; 32],
    /// Whether any of it is compressed. FIEMAP does not show where in a compressed extent the data begins, so equal
    /// layouts are then only very probably the same data.
    pub(crate) is_encoded: bool,
}

/// The layout of an open file in this space. It is equal for files with all their data in the same place. `None` if
/// some of the data has no place of its own. Writes dirty pages first.
///
/// # Errors
/// Errors of FIEMAP.
pub(crate) fn layout(file: BorrowedFd<'_>, space: SpaceId) -> Result<Option<Layout>> {
    let mut hasher = blake3::Hasher::new();
    let mut whole: Option<[u64; 3]> = None;
    let mut is_encoded = false;
    // Returns whether the extent has a place.
    let mut add = |extent: &Extent| {
        if extent.flags.contains(ExtentFlags::UNWRITTEN) {
            return true;
        }
        let strange = ExtentFlags::DATA_ENCRYPTED | ExtentFlags::NOT_ALIGNED;
        let Some(physical) = extent.physical.filter(|_| !extent.flags.intersects(strange)) else { return false };
        let encoded = extent.flags.contains(ExtentFlags::ENCODED);
        is_encoded |= encoded;
        // The kernel may report adjacent data in different parts.
        match &mut whole {
            Some([logical, address, length])
                if !encoded
                    && (logical.wrapping_add(*length), address.wrapping_add(*length)) == (extent.logical, physical) =>
            {
                *length += extent.length;
            }
            _ => {
                whole.take().inspect(|piece| put(&mut hasher, piece));
                let piece = [extent.logical, physical, extent.length];
                if encoded { put(&mut hasher, &piece) } else { whole = Some(piece) }
            }
        }
        true
    };
    // Most files have few extents, and allocating memory for many takes longer than the call.
    let has_place = match fiemap::few_extents(file, true)? {
        Some(few) => few.iter().all(&mut add),
        None => {
            let mut all = true;
            for extent in fiemap::extents(file, false) {
                all &= add(&extent?);
            }
            all
        }
    };
    whole.inspect(|piece| put(&mut hasher, piece));
    let digest = *hasher.finalize().as_bytes();
    Ok(has_place.then_some(Layout { space, digest, is_encoded }))
}

fn put(hasher: &mut blake3::Hasher, piece: &[u64; 3]) {
    piece.iter().for_each(|number| {
        hasher.update(&number.to_le_bytes());
    });
}

/// Bytes of a file that are not in the same place as in `other`, up to `size`. Ranges that are holes or reserved space
/// in both files count as alike. Both files are in this space.
///
/// # Errors
/// Errors of FIEMAP.
pub(crate) fn unlike_bytes(file: BorrowedFd<'_>, other: BorrowedFd<'_>, space: SpaceId, size: u64) -> Result<u64> {
    let (mut ours, mut theirs) = (Pieces::of(file, space)?, Pieces::of(other, space)?);
    let (mut at, mut unlike) = (0, 0);
    while at < size {
        ours.go_to(at)?;
        theirs.go_to(at)?;
        let (one, end_of_one) = standing_at(ours.present.as_ref(), at);
        let (two, end_of_two) = standing_at(theirs.present.as_ref(), at);
        let end = end_of_one.min(end_of_two).min(size);
        if !is_alike(one, two, at) {
            unlike += end - at;
        }
        at = end;
    }
    Ok(unlike)
}

/// The pieces of a file, one at a time.
struct Pieces<'a> {
    extents: Extents<BorrowedFd<'a>>,
    space: SpaceId,
    present: Option<Piece>,
}

impl<'a> Pieces<'a> {
    fn of(file: BorrowedFd<'a>, space: SpaceId) -> Result<Self> {
        let mut pieces = Pieces { extents: fiemap::extents(file, true), space, present: None };
        pieces.advance()?;
        Ok(pieces)
    }

    fn advance(&mut self) -> Result<()> {
        self.present = self.extents.next().transpose()?.map(|extent| Piece::of_extent(&extent, Some(self.space)));
        Ok(())
    }

    /// Skips the pieces that end before an offset.
    fn go_to(&mut self, at: u64) -> Result<()> {
        while self.present.is_some_and(|piece| piece.end() <= at) {
            self.advance()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn only_a_file_on_the_same_blocks_has_the_same_layout() {
        let make = || {
            let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
            file.write_all_at(&[7; 300_000], 0).unwrap();
            file.sync_all().unwrap();
            file
        };
        let (one, other) = (make(), make());
        let space = SpaceId::assumed();
        let Ok(found) = layout(one.as_fd(), space) else {
            return assert_eq!(layout(one.as_fd(), space).unwrap_err(), Errno::OPNOTSUPP);
        };
        assert!(found.is_some());
        assert_eq!(found, layout(one.as_fd(), space).unwrap());
        assert_ne!(found, layout(other.as_fd(), space).unwrap());
        assert_eq!(unlike_bytes(one.as_fd(), one.as_fd(), space, 300_000), Ok(0));
        assert_eq!(unlike_bytes(one.as_fd(), other.as_fd(), space, 300_000), Ok(300_000));
    }
}

//! Where two files on one filesystem differ, by the places of their data, without reading any of it.

use crate::extents::piece::Piece;
use crate::extents::ranges::{self, Bytes};

/// The ranges in which pieces of a new file have other data than those of an old one. Both are in the order of their
/// offsets.
pub(super) fn of(old: &[Piece], new: &[Piece]) -> Vec<Bytes> {
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
    // The offset in the extent, for a common byte of the file.
    let at = old.logical.max(new.logical);
    let place = |piece: &Piece| piece.offset + (at - piece.logical);
    if old.encoded {
        return from.is_same_place(to) && place(old) == place(new);
    }
    from.plus(place(old)).is_same_place(to.plus(place(new)))
}

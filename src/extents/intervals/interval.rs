//! An interval of a device and its holder, in as few bytes as the holder allows. The address space is in the list
//! (`list`). Pure.

use crate::extents::ranges::Bytes;
use std::fmt::Debug;

/// Who holds an interval: what a list stores besides the range.
pub(crate) trait Holder: Copy + Debug {
    /// The integer that stores a length.
    type Length: Copy + Debug + Into<u64>;
    /// The order in a list, first by the place on the device.
    type Order: Ord;

    /// The order of an interval with this holder.
    fn order(&self, start: u64, length: Self::Length) -> Self::Order;
}

/// A range of a device and its holder. The bounds are offsets in the address space of the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval<H: Holder> {
    start: u64,
    length: H::Length,
    /// The holder.
    pub(crate) by: H,
}

impl<H: Holder> Interval<H> {
    /// An interval. Its place is an offset in the address space of the list, or of the sweep.
    pub(crate) fn new(start: u64, length: H::Length, by: H) -> Self {
        Interval { start, length, by }
    }

    /// The offset of the first byte.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// The number of bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length.into()
    }

    /// The offset after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.start.saturating_add(self.length())
    }

    pub(super) fn order(&self) -> H::Order {
        self.by.order(self.start, self.length)
    }
}

/// How a list identifies a file.
pub(crate) trait File: Copy + Debug + Ord {}

impl<F: Copy + Debug + Ord> File for F {}

/// A place in a file, as the holder of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place<F> {
    /// The file: its number in a run, or its inode.
    pub(crate) file: F,
    /// The offset in the file.
    pub(crate) logical: u64,
}

impl<F: File> Holder for Place<F> {
    type Length = u64;
    type Order = (u64, Self);

    fn order(&self, start: u64, _length: u64) -> Self::Order {
        (start, *self)
    }
}

/// The part of an interval in a requested range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlap<F> {
    /// The offset of its first byte from the beginning of the requested range.
    pub(crate) ahead: u64,
    /// The number of bytes.
    pub(crate) length: u64,
    /// The place of its first byte.
    pub(crate) by: Place<F>,
}

impl<F: File> Interval<Place<F>> {
    /// The part of it in `range`.
    pub(super) fn overlap(&self, range: &Bytes) -> Option<Overlap<F>> {
        let (start, end) = (self.start.max(range.start), self.end().min(range.end));
        let logical = self.by.logical.saturating_add(start - self.start);
        (start < end).then(|| Overlap {
            ahead: start - range.start,
            length: end - start,
            by: Place { logical, ..self.by },
        })
    }

    /// Makes it longer if the other interval continues it on the device and in the file.
    pub(super) fn join(&mut self, next: &Self) -> bool {
        let continues = self.by.file == next.by.file
            && self.start.checked_add(self.length) == Some(next.start)
            && self.by.logical.checked_add(self.length) == Some(next.by.logical);
        let length = self.length.checked_add(next.length).filter(|_| continues);
        self.length = length.unwrap_or(self.length);
        length.is_some()
    }
}

/// The bytes that sorted intervals cover, each counted once.
pub(crate) fn covered_bytes<H: Holder>(sorted: &[Interval<H>]) -> u64 {
    let (mut sum, mut covered) = (0, 0);
    for interval in sorted {
        sum += interval.end().saturating_sub(interval.start.max(covered));
        covered = covered.max(interval.end());
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_clipped_on_both_sides() {
        let piece = Interval::new(100, 50, Place { file: 1, logical: 1000 });
        let clipped = |range: Bytes| {
            piece.overlap(&range).map(|overlap| (range.start + overlap.ahead, overlap.length, overlap.by.logical))
        };
        assert_eq!(clipped(0..1000), Some((100, 50, 1000)));
        assert_eq!(clipped(120..130), Some((120, 10, 1020)));
        assert_eq!(clipped(0..100), None);
        assert_eq!(clipped(150..160), None);
    }

    #[test]
    fn an_interval_is_joined_only_in_the_same_file_and_on_both_sides() {
        let piece = |start, file, logical| Interval::new(start, 10, Place { file, logical });
        let joins = |next| piece(100, 1, 0).join(&next);
        assert!(joins(piece(110, 1, 10)));
        assert!(!joins(piece(110, 2, 10)) && !joins(piece(110, 1, 20)) && !joins(piece(120, 1, 10)));
    }
}

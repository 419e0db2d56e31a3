//! Ranges with their holders, passed on as the sweep reaches them; nothing is collected.

use super::sets::Sets;
use super::sweep::{Holder, Segment, Visitor};

/// A range that a group shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range<'a> {
    /// The index of the group.
    pub group: usize,
    /// The address, on the filesystem of its holders.
    pub physical: u64,
    /// The length in bytes; for a compressed extent, the least that any of the files holds of it.
    pub length: u64,
    /// Part of a compressed extent: only the address is known.
    pub is_encoded: bool,
    /// The holders and their places, sorted.
    pub holders: &'a [Holder],
}

/// The sweep that lists the ranges of listed groups, and joins ranges that are adjacent in all holders.
pub(super) struct RangeSweep<'a, F> {
    sets: &'a Sets,
    each: F,
    /// The range that the next segment may continue.
    group: usize,
    physical: u64,
    length: u64,
    is_encoded: bool,
    holders: Vec<Holder>,
    next: Vec<Holder>,
}

impl<'a, F: FnMut(&Range<'_>)> RangeSweep<'a, F> {
    pub(super) fn new(sets: &'a Sets, each: F) -> Self {
        let (holders, next) = (Vec::new(), Vec::new());
        RangeSweep { sets, each, group: 0, physical: 0, length: 0, is_encoded: false, holders, next }
    }

    /// Passes on the last range.
    pub(super) fn finish(mut self) {
        self.hand_on();
    }

    fn hand_on(&mut self) {
        if !self.holders.is_empty() {
            let RangeSweep { group, physical, length, is_encoded, ref holders, .. } = *self;
            (self.each)(&Range { group, physical, length, is_encoded, holders });
        }
        self.holders.clear();
    }

    fn continues(&self, group: usize, segment: &Segment<'_>) -> bool {
        let follows = |(before, next): (&Holder, &Holder)| {
            (before.file, before.logical.checked_add(self.length)) == (next.file, Some(next.logical))
                && before.is_unwritten == next.is_unwritten
        };
        group == self.group
            && !self.is_encoded
            && !segment.is_encoded
            && self.physical.checked_add(self.length) == Some(segment.physical)
            && self.holders.len() == self.next.len()
            && self.holders.iter().zip(&self.next).all(follows)
    }
}

impl<F: FnMut(&Range<'_>)> Visitor for RangeSweep<'_, F> {
    fn segment(&mut self, segment: &Segment<'_>) {
        let Some(group) = self.sets.rank_of(segment.key).filter(|group| self.sets.is_listed(*group)) else { return };
        self.next.clear();
        segment.each_holder(|holder| self.next.push(holder));
        self.next.sort_unstable();
        if self.continues(group, segment) {
            self.length += segment.length;
            self.holders.iter_mut().for_each(|holder| holder.length += segment.length);
            return;
        }
        self.hand_on();
        std::mem::swap(&mut self.holders, &mut self.next);
        (self.group, self.physical, self.length) = (group, segment.physical, segment.length);
        self.is_encoded = segment.is_encoded;
    }
}

/// The sweep that passes on all ranges of the watched files.
pub(super) struct Watch<'a, F> {
    sets: &'a Sets,
    each: F,
    holders: Vec<Holder>,
}

impl<'a, F: FnMut(&Range<'_>)> Watch<'a, F> {
    pub(super) fn new(sets: &'a Sets, each: F) -> Self {
        Watch { sets, each, holders: Vec::new() }
    }
}

impl<F: FnMut(&Range<'_>)> Visitor for Watch<'_, F> {
    fn segment(&mut self, segment: &Segment<'_>) {
        self.holders.clear();
        segment.each_holder(|holder| self.holders.push(holder));
        let (Some(group), false) = (self.sets.rank_of(segment.key), self.holders.is_empty()) else { return };
        self.holders.sort_unstable();
        let Segment { physical, length, is_encoded, .. } = *segment;
        (self.each)(&Range { group, physical, length, is_encoded, holders: &self.holders });
    }
}

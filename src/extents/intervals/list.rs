//! A list of intervals of one address space.

use super::interval::{File, Holder, Interval, Overlap, Place};
use crate::extents::address_space::{Address, SpaceId};
use crate::extents::ranges::Bytes;

/// Intervals of one address space, in the order in which they were added until they are sorted.
#[derive(Clone, Debug)]
pub(crate) struct Intervals<H: Holder> {
    space: SpaceId,
    list: Vec<Interval<H>>,
}

impl<H: Holder> Intervals<H> {
    /// No intervals yet.
    pub(crate) fn new(space: SpaceId) -> Self {
        Intervals { space, list: Vec::new() }
    }

    /// The address space of all intervals.
    pub(crate) fn space(&self) -> SpaceId {
        self.space
    }

    /// Adds an interval. An address in another space is ignored.
    pub(crate) fn add(&mut self, at: Address, length: H::Length, by: H) {
        if let Some(start) = self.space.offset(at) {
            self.list.push(Interval::new(start, length, by));
        }
    }

    /// The number of intervals.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Removes intervals from the end as long as their holders satisfy `is_such`.
    pub(crate) fn remove_last(&mut self, is_such: impl Fn(&H) -> bool) {
        while self.list.pop_if(|interval| is_such(&interval.by)).is_some() {}
    }

    /// Sorts the intervals in the order of their holders.
    pub(crate) fn sort(&mut self) {
        self.list.sort_unstable_by_key(Interval::order);
    }

    /// All intervals.
    pub(crate) fn as_slice(&self) -> &[Interval<H>] {
        &self.list
    }

    pub(super) fn vec(&mut self) -> &mut Vec<Interval<H>> {
        &mut self.list
    }

    /// The offsets of a range in this space; `None` for an address in another space.
    pub(super) fn bytes(&self, at: Address, length: u64) -> Option<Bytes> {
        let start = self.space.offset(at)?;
        Some(start..start.saturating_add(length))
    }
}

impl<F: File> Intervals<Place<F>> {
    /// Adds an interval. If it continues the last one, that becomes longer instead.
    pub(crate) fn add_joined(&mut self, at: Address, length: u64, by: Place<F>) {
        let Some(start) = self.space.offset(at) else { return };
        let next = Interval::new(start, length, by);
        if !self.list.last_mut().is_some_and(|last| last.join(&next)) {
            self.list.push(next);
        }
    }

    /// The parts of intervals in `length` bytes from an address, in the order of the list. Checks each interval.
    pub(crate) fn overlaps(&self, at: Address, length: u64) -> Vec<Overlap<F>> {
        let Some(range) = self.bytes(at, length) else { return Vec::new() };
        self.list.iter().filter_map(|interval| interval.overlap(&range)).collect()
    }
}

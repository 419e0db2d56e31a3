//! The sweep: one pass over sorted intervals from the lowest address to the highest, which cuts them at all bounds.

use super::interval::{Holder, Interval};
use crate::extents::ranges::Bytes;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens on the way.
pub(crate) trait Bounds {
    /// Who holds the intervals.
    type Holder: Holder;
    /// What must be known of an interval when it ends.
    type Open: Ord;

    /// An interval begins.
    fn begins(&mut self, interval: &Interval<Self::Holder>) -> Self::Open;
    /// Passes over a range that the same intervals cover from its beginning to its end, at least one.
    fn covers(&mut self, range: Bytes);
    /// An interval ends at `at`.
    fn ends(&mut self, open: Self::Open, at: u64);
}

/// A sweep over intervals, which must be passed in the order of their starts.
pub(crate) struct Sweep<'a, B: Bounds> {
    bounds: &'a mut B,
    at: u64,
    /// The intervals that cover the present address, by their ends.
    open: BinaryHeap<Reverse<(u64, B::Open)>>,
}

impl<'a, B: Bounds> Sweep<'a, B> {
    pub(crate) fn new(bounds: &'a mut B) -> Self {
        Sweep { bounds, at: 0, open: BinaryHeap::new() }
    }

    /// The next interval.
    pub(crate) fn begin(&mut self, interval: &Interval<B::Holder>) {
        self.advance(interval.start());
        self.reach(interval.start());
        let open = self.bounds.begins(interval);
        self.open.push(Reverse((interval.end(), open)));
    }

    /// Ends all intervals.
    pub(crate) fn finish(mut self) {
        self.advance(u64::MAX);
    }

    /// Ends all intervals that end up to `to`.
    fn advance(&mut self, to: u64) {
        while self.open.peek().is_some_and(|Reverse((end, _))| *end <= to)
            && let Some(Reverse((end, open))) = self.open.pop()
        {
            // It is one of the intervals that cover the range up to here.
            self.pass(end);
            self.bounds.ends(open, self.at);
        }
    }

    /// Passes over the addresses up to `to`, where nothing begins or ends.
    fn reach(&mut self, to: u64) {
        if self.open.is_empty() {
            self.at = self.at.max(to);
        } else {
            self.pass(to);
        }
    }

    fn pass(&mut self, to: u64) {
        if to > self.at {
            self.bounds.covers(self.at..to);
            self.at = to;
        }
    }
}

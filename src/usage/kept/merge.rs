//! One pass over the maps of several trees, sorted by address: which ranges does one of them hold alone, and which does
//! a set hold alone.
//!
//! Memory: a block of each map, and the ranges that cover one address.

use super::file::Reader;
use super::types::Range;
use crate::extents::intervals::{Bounds, Holder, Interval, Sweep};
use crate::extents::ranges::Bytes;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::Read;

/// A part of the disk that only one of the maps holds, or only those of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The number of references from files of all maps.
    pub(super) count: u64,
    /// One of the maps that hold it, and a file there.
    pub(super) map: u32,
    pub(super) inode: u64,
    /// Only that map holds it.
    pub(super) is_alone: bool,
    /// Only maps of the set hold it.
    pub(super) is_in_set: bool,
}

/// A map that cannot be read, by its number.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) map: usize,
}

/// Passes the pieces to `each`, in ascending order. `set`: for each map, whether it belongs to the set.
pub(super) fn merge<R: Read>(maps: &mut [Reader<R>], set: &[bool], each: impl FnMut(Piece)) -> Result<(), Unreadable> {
    let mut next = BinaryHeap::with_capacity(maps.len());
    for map in 0..maps.len() {
        next.extend(read(maps, map)?);
    }
    let mut cover =
        Cover { set, count: 0, outside: 0, open: VecDeque::new(), maps: vec![0; maps.len()], held: 0, each };
    let mut sweep = Sweep::new(&mut cover);
    while let Some(Reverse((start, length, map, count, inode))) = next.pop() {
        sweep.begin(&Interval::new(start, length, Held { map, count, inode }));
        next.extend(read(maps, map as usize)?);
    }
    sweep.finish();
    Ok(())
}

type Next = Reverse<(u64, u32, u32, u32, u64)>;

fn read<R: Read>(maps: &mut [Reader<R>], map: usize) -> Result<Option<Next>, Unreadable> {
    let range = maps[map].next_range().map_err(|_| Unreadable { map })?;
    Ok(range.map(|Range { start, length, count, inode }| Reverse((start, length, map as u32, count, inode))))
}

/// A range of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    map: u32,
    count: u32,
    inode: u64,
}

impl Holder for Held {
    type Length = u32;
    type Order = (u64, u32);

    fn order(&self, start: u64, length: u32) -> (u64, u32) {
        (start, length)
    }
}

/// The ranges that cover the present address.
struct Cover<'a, F> {
    set: &'a [bool],
    open: VecDeque<Held>,
    count: u64,
    /// The number of ranges of maps that do not belong to the set.
    outside: u64,
    /// The number of ranges of each map, and the number of maps that have any.
    maps: Vec<u32>,
    held: u64,
    each: F,
}

impl<F: FnMut(Piece)> Bounds for Cover<'_, F> {
    type Holder = Held;
    type Open = Held;

    fn begins(&mut self, interval: &Interval<Held>) -> Held {
        let held = interval.by;
        let map = held.map as usize;
        self.count += u64::from(held.count);
        self.outside += u64::from(!self.set[map]);
        self.held += u64::from(self.maps[map] == 0);
        self.maps[map] += 1;
        self.open.push_back(held);
        held
    }

    fn covers(&mut self, range: Bytes) {
        let (is_alone, is_in_set) = (self.held == 1, self.outside == 0);
        if let Some(Held { map, inode, .. }) = self.open.front().copied().filter(|_| is_alone || is_in_set) {
            let Bytes { start, end } = range;
            (self.each)(Piece { start, end, count: self.count, map, inode, is_alone, is_in_set });
        }
    }

    fn ends(&mut self, held: Held, _at: u64) {
        let map = held.map as usize;
        self.count -= u64::from(held.count);
        self.outside -= u64::from(!self.set[map]);
        self.maps[map] -= 1;
        self.held -= u64::from(self.maps[map] == 0);
        // Equal ranges end in the order in which they began.
        if let Some(at) = self.open.iter().position(|open| *open == held) {
            self.open.remove(at);
        }
    }
}

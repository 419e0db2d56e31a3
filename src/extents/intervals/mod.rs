//! Which ranges of a device are held by whom: sorted lists of packed intervals, for features that need the ranges of
//! many files at once.
//!
//! | file | contains |
//! |---|---|
//! | `interval` | an interval without its address space, and the forms of its holder |
//! | `list` | the list, with the address space of all its intervals |
//! | `merged` | a list in which equal intervals are one, within a bounded memory |
//! | `tree` | a search for the intervals that overlap a range |
//! | `sweep` | a pass over a list that cuts its intervals at all bounds |
//!
//! Intervals are added, and searched for, by [`Address`](super::address_space::Address); an address in another space is
//! ignored. Features decide what a holder means. No I/O.

mod interval;
mod list;
mod merged;
mod sweep;
mod tree;

pub(crate) use interval::{Holder, Interval, Overlap, Place, covered_bytes};
pub(crate) use list::Intervals;
pub(crate) use merged::{Merge, Merged};
pub(crate) use sweep::{Bounds, Sweep};
pub(crate) use tree::IntervalTree;

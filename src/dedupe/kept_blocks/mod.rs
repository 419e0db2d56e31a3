//! The block index that one run keeps for the next: the files that were read, the places of the hashes of their blocks,
//! and the ranges of them that have no places of their own. `ranges::kept` uses it. `docs/dedupe.md` describes the
//! format, and when the next run trusts it.
//!
//! `part` is the format of the index of one filesystem, `store` the list of these parts in the cache, and `borrowed`
//! the ranges without places.

pub(super) mod borrowed;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
pub(super) mod part;
pub(super) mod store;

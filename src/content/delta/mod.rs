//! What of a file is as in its last version, down to the block, and what is done about the rest.
//!
//! `windows` reads a file once and compares: with a `list` of the last version's hashes, or with the last version itself.
//! `update` writes the blocks that differ into a clone of the last version: for sources on another filesystem. `share`
//! makes a clone of the source share with the last version what is equal: for sources on the same one. `tree` is BLAKE3 in
//! parts, `ranges` sets of ranges. Which files are worth it is decided elsewhere.

pub mod list;
mod share;
pub mod tree;
mod update;
mod windows;

pub use list::{List, NewList};
pub use share::{Shared, share};
pub use update::{Updated, update};
pub(crate) use windows::is_zero;
pub use windows::{Base, Options};

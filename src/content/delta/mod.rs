//! Compares a file with its last version (the base), block by block, and shares or writes the blocks as needed.
//!
//! `windows` reads a file once and compares it with a `list` of the base's hashes, or with the base itself. `update`
//! writes the differing blocks into a clone of the base, for sources on another filesystem. `share` lets a clone of the
//! source share the equal blocks with the base, for sources on the same filesystem. `follow` makes such a clone from a
//! file with the base's content, by clones of the ranges that changed. Callers choose the files for which this pays.

mod follow;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
pub mod list;
mod look;
mod share;
mod update;
mod windows;

pub(crate) use follow::follow;
pub use list::{List, NewList};
pub use look::{Base, Options};
pub use share::{Extents, Shared, share};
pub use update::{Updated, update};
pub(crate) use windows::is_zero;

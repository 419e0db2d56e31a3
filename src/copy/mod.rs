//! The copy ladder: how content comes from one file into another.
//!
//! A clone where the filesystem allows it, else a copy that keeps holes. What a pair of filesystems refused once is
//! remembered and not asked again.

mod buffered;
mod ladder;
pub mod segments;

pub use buffered::{Copied, CopyError, copy};
pub use ladder::{CloneError, Ladder, Reason};

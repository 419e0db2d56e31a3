//! Where the bytes of files lie on a device, and which files share them.
//!
//! One type describes where a range of a file lies: `piece::Piece`, with an address that contains its address space.
//! Each question about pieces has one type:
//!
//! | question | type | who asks |
//! |---|---|---|
//! | which extents does a range of a file have? | `layout::pieces` | `content::delta`, put, dedupe of ranges |
//! | are two files on the same blocks, or where not? | `map::Map`, `layout::has_same_extents` | dedupe, snapshot |
//! | how many bytes of this file lie in those files? | `places::Places` | put, `content::rewrite` |
//! | which of these files share which ranges? | `sharing::Holdings` (packed, 32 bytes an extent) | fiemap |
//! | which bytes are left, covered, freed? | `ranges` | all |
//!
//! Two features keep their own lists for one filesystem at a time, packed to limit their memory. `dedupe::ranges` lists
//! who else holds a range (32 bytes and 8 for the search), and `usage` how often each range is referred to (24 bytes).
//!
//! Reading extents is here; changing what files share is in `content` and in the features.

pub mod address_space;
pub mod bound;
pub(crate) mod layout;
pub(crate) mod map;
pub mod picture;
pub mod piece;
pub(crate) mod places;
pub(crate) mod ranges;
pub mod sharing;

pub use crate::sys::extent;

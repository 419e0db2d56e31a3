//! Where the bytes of files lie on a device, and which files share them.
//!
//! One type says where a range of a file lies: `piece::Piece`, whose address carries its address space. Each question
//! about pieces has one type:
//!
//! | question | type | who asks |
//! |---|---|---|
//! | which extents does a range of a file have? | `layout::pieces` | `content::delta`, put, dedupe of ranges |
//! | are two files on the same blocks, or where not? | `map::Map`, `layout::has_same_extents` | dedupe, snapshot |
//! | how many bytes of this file lie in those files? | `places::Places` | put, `content::rewrite` |
//! | which of these files share which ranges? | `sharing::Holdings` (packed, 32 bytes an extent) | fiemap |
//! | which bytes are left, covered, freed? | `ranges` | all |
//!
//! Two features keep lists of their own for one filesystem at a time, made from pieces and packed to keep within their
//! memory: `dedupe::ranges` who else holds a range (32 bytes and 8 for the search), `usage` how often each range is
//! referred to (24 bytes).
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

//! Where the bytes of files lie on a device, and which files share them.
//!
//! One type describes where a range of a file lies: `piece::Piece`, with an address that contains its address space.
//! Each question about pieces has one type:
//!
//! | question | type | who asks |
//! |---|---|---|
//! | which extents does a range of a file have? | `layout::pieces` | `content::delta`, put, dedupe of ranges |
//! | are two files on the same blocks, or where not? | `map::Map`, `layout::has_same_extents` | dedupe, snapshot |
//! | the same for files with any number of extents | `streamed`; on Btrfs `differing` | verify, snapshot |
//! | how many bytes of this file lie in those files? | `places::Places` | put, `content::rewrite` |
//! | which ranges are held by whom? | `intervals` (packed) | see below |
//! | which of these files share which ranges? | `sharing::Holdings` | fiemap |
//! | which bytes are left, covered, freed? | `ranges` | all |
//!
//! Lists of all extents of many files are packed to limit their memory. All use `intervals`, each with its own holder:
//!
//! | list | holder | bytes an interval |
//! |---|---|---|
//! | `sharing` | file, offset, marks | 32 |
//! | `dedupe::ranges`: who else holds a range | file, offset | 32, and 8 for the search |
//! | `owners` of an XFS without a reverse map | inode, offset | 32, and 8 for the search |
//! | `usage`: how often a range is referred to | counts | 24, and room for half another |
//!
//! Reading extents is here; changing what files share is in `content` and in the features.

pub mod address_space;
pub(crate) mod bound;
pub(crate) mod differing;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
pub(crate) mod intervals;
pub(crate) mod layout;
pub(crate) mod map;
pub(crate) mod picture;
pub(crate) mod piece;
pub(crate) mod places;
pub(crate) mod ranges;
pub(crate) mod sharing;
pub(crate) mod streamed;

pub(crate) use crate::sys::extent;

//! Where the bytes of files lie on a device, and which files share them.
//!
//! An address means something only within its own address space (`address_space`). Reading maps is here; changing what files
//! share is in `content` and in the features.

pub mod address_space;
pub mod extent;
pub(crate) mod intervals;
pub(crate) mod layout;
pub(crate) mod map;
pub mod picture;
pub(crate) mod ranges;
pub mod sharing;

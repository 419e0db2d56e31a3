//! Directory trees: walked, filtered, written, deleted.

pub(crate) mod changed;
pub(crate) mod deletion;
pub(crate) mod estimate;
pub mod exclude;
pub(crate) mod inode_map;
pub(crate) mod sweep;
pub(crate) mod walk;
pub(crate) mod writer;

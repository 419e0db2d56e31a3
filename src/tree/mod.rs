//! Directory trees: walked, filtered, written, deleted.

pub(crate) mod deletion;
pub mod estimate;
pub mod exclude;
pub(crate) mod inode_map;
pub mod walk;
pub(crate) mod writer;

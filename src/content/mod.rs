//! The content of single files: copying, comparing, hashing, updating. Names and metadata are in `tree`.

pub(crate) mod block_index;
pub mod copy;
pub mod delta;
pub mod hash;
pub(crate) mod rewrite;
pub(crate) mod same_content;

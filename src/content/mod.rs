//! The content of single files: copied, compared, hashed, brought up to date. Names and metadata are in `tree`.

pub(crate) mod block_index;
pub mod copy;
pub mod delta;
pub(crate) mod disk_hash;
pub mod hash;
pub(crate) mod same_content;

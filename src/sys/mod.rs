//! System calls that no safe crate offers: reflinks, extent maps, reverse maps, the ioctls of Btrfs and XFS, mappings
//! that only the kernel reads. This is the only unsafe code of pleach.
//!
//! Each wrapper borrows its descriptors, returns a result, and knows nothing about snapshots or commands.
#![allow(unsafe_code, reason = "ioctls with structures that rustix does not have")]

pub mod block;
pub mod btrfs;
pub mod cachestat;
pub mod extent;
pub mod fiemap;
pub mod fsxattr;
pub mod getfsmap;
mod handle;
pub mod mmap;
pub mod reflink;
pub mod seccomp;
pub mod sync_file_range;
pub mod terminal;
pub mod uring;
pub mod uuid;
pub mod xfs;

//! System calls that no safe crate offers: reflinks, extent maps, reverse maps, the ioctls of Btrfs and XFS, mappings
//! that only the kernel reads; a look at the process before Rust's runtime starts, and its end without memory. This is
//! the only unsafe code of pleach.
//!
//! Each wrapper borrows its descriptors, returns a result, and knows nothing about snapshots or commands.
#![allow(unsafe_code, reason = "ioctls with structures that rustix does not have")]

#[cfg(feature = "cli")]
pub(crate) mod abort;
pub(crate) mod block;
pub(crate) mod btrfs;
pub(crate) mod cachestat;
pub(crate) mod extent;
pub(crate) mod fiemap;
pub(crate) mod fsxattr;
pub(crate) mod getfsmap;
mod handle;
pub(crate) mod ioprio;
pub(crate) mod loop_device;
pub(crate) mod mmap;
pub mod reflink;
pub(crate) mod seccomp;
#[cfg(feature = "cli")]
pub(crate) mod standard_streams;
pub(crate) mod sync_file_range;
pub(crate) mod terminal;
pub(crate) mod uring;
pub(crate) mod uuid;
pub(crate) mod xfs;

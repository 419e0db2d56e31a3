//! Single files, directories and filesystems: their properties, and safe, complete calls on them.
//!
//! Nothing here knows extents, trees or commands. Each file wraps one concept of the kernel (status, metadata, reads at
//! an offset, mounts) or hides one of its pitfalls (coarse clocks, renames that replace, dirty pages).

pub(crate) mod cow_extent_hint;
pub(crate) mod data_loss;
pub(crate) mod direct_io;
pub mod fidedupe;
pub mod filesystem;
pub(crate) mod flush;
pub(crate) mod held_open;
pub(crate) mod identity;
pub mod metadata;
pub(crate) mod mount_id;
pub(crate) mod mounts;
pub(crate) mod open_files;
pub(crate) mod openat;
pub(crate) mod pread;
pub(crate) mod procfs;
pub(crate) mod rename;
pub(crate) mod reopener;
pub(crate) mod shutdown;
pub mod sparse;
pub(crate) mod spill;
pub mod status;
pub(crate) mod stored_time;
pub mod timestamp;
pub(crate) mod writeback;

//! pleach: snapshots, space and sharing on filesystems with reflinks.
//!
//! Engines are functions of a subject, options and a [`monitor::Monitor`]; they return stats and never print.
//! `docs/architecture.md` draws the layers.

pub mod address_space;
pub mod beneath;
pub mod copy;
pub mod copy_tree;
mod crew;
pub mod dedupe;
pub mod delta;
mod disk_hash;
pub mod error;
pub mod estimate;
pub mod exclude;
pub mod extent;
pub mod fiemap;
pub mod filesystem;
pub mod flush;
pub mod hash;
pub mod identity;
mod inode_map;
pub(crate) mod layout;
pub mod metadata;
pub mod monitor;
pub mod mounts;
mod mutex;
pub mod owners;
pub mod picture;
pub mod positioned;
pub mod probe;
mod procfs;
pub mod put;
mod rename;
mod reopener;
mod same_content;
mod session;
pub mod sharing;
mod shutdown;
pub mod snapshot;
mod staging;
pub mod status;
pub mod stopped;
pub mod sys;
pub mod text;
pub mod timestamp;
mod turns;
pub mod uncached;
pub mod usage;
pub mod walk;

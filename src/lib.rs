//! pleach: snapshots, space and sharing on filesystems with reflinks.
//!
//! Engines are functions of a subject, options and a [`monitor::Monitor`]; they return stats and never print.
//! `docs/architecture.md` draws the layers.

pub mod beneath;
pub mod copy;
pub mod copy_tree;
mod crew;
pub mod dedupe;
pub mod delta;
pub mod error;
pub mod exclude;
pub mod extent;
pub mod fiemap;
pub mod filesystem;
pub mod hash;
pub(crate) mod layout;
pub mod metadata;
pub mod monitor;
pub mod mounts;
mod mutex;
pub mod owners;
pub mod picture;
pub mod positioned;
pub mod probe;
pub mod put;
mod session;
pub mod sharing;
pub mod snapshot;
mod staging;
pub mod status;
pub mod sys;
pub mod text;
mod turns;
pub mod uncached;
pub mod usage;
pub mod walk;

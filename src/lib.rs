//! pleach: snapshots, space and sharing on filesystems with reflinks.
//!
//! Engines are functions with a subject, options and a [`monitor::Monitor`]. They return stats and never print.
//! `docs/architecture.md` shows the layers.

pub mod content;
pub mod copy_tree;
pub mod dedupe;
pub mod error;
pub mod extents;
pub mod fiemap;
pub mod fs;
pub mod monitor;
pub mod owners;
pub mod probe;
pub mod put;
pub mod snapshot;
pub mod sys;
pub mod tree;
pub mod usage;
pub mod util;

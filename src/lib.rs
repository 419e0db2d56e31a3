//! pleach: snapshots, space and sharing on filesystems with reflinks.
#![doc = include_str!("../docs/library.md")]
#![cfg_attr(not(feature = "testing"), deny(unnameable_types))]
// What only the command or the tests use is unused without them.
#![cfg_attr(
    not(all(feature = "cli", feature = "offsite", feature = "testing")),
    allow(dead_code, unreachable_pub, unused_imports)
)]

mod content;
pub mod copy_tree;
pub mod dedupe;
pub mod error;
mod extents;
pub mod fiemap;
mod fs;
pub mod monitor;
pub mod probe;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod program;
pub mod put;
pub mod snapshot;
mod sys;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;
pub mod tree;
pub mod usage;
mod util;

pub use error::{Error, Result};
pub use monitor::{Event, Monitor};
pub use snapshot::Repository;

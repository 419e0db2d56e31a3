//! Snapshots: the repository, its manifests, and the operations on them.

pub mod adopt;
pub mod cat;
mod compare_records;
pub mod create;
mod devices;
pub mod diff;
pub mod du;
pub mod find;
pub mod list;
mod live_record;
pub mod log;
mod lookup;
pub(crate) mod manifest;
mod measured;
#[cfg(feature = "offsite")]
pub mod offsite;
mod outgoing;
mod part;
pub mod prune;
pub mod receive;
mod recorded;
mod recording_monitor;
pub mod remove;
pub mod replicate;
pub mod report;
pub(crate) mod repository;
pub mod restore;
pub(crate) mod send;
mod skipped;
mod source_path;
mod space_maps;
mod ssh;
pub(crate) mod stream;
pub mod tag;
mod unreadable;
pub mod verify;

pub use crate::content::copy::Reason;
pub use manifest::{Time, Totals};
pub use repository::{Added, Repository};
pub use ssh::Host;

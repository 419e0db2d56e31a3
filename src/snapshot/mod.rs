//! Snapshots: the repository, its manifests, and the operations on them.

pub mod adopt;
pub mod cat;
pub mod create;
mod devices;
pub mod diff;
pub mod du;
pub mod find;
mod judge;
mod kept;
pub mod list;
mod live_record;
pub mod log;
pub(crate) mod manifest;
mod noting;
mod part;
pub mod prune;
mod recorded;
pub mod remove;
pub mod report;
pub(crate) mod repository;
pub mod restore;
mod skipped;
mod source_path;
pub mod tag;
pub mod verify;

pub use crate::content::copy::Reason;
pub use manifest::{Time, Totals};
pub use repository::{Added, Repository};

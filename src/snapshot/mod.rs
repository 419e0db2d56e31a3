//! Snapshots: the repository, its manifests, and the operations on them.

pub mod create;
pub mod list;
pub(crate) mod manifest;
pub(crate) mod repository;
pub mod restore;
pub mod verify;

pub use crate::content::copy::Reason;
pub use manifest::{Time, Totals};
pub use repository::{Added, Repository};

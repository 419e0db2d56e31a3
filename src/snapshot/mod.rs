//! Snapshots: the repository, its manifests, and what is done with them.

pub mod create;
pub mod list;
pub mod manifest;
pub mod repository;
pub mod restore;

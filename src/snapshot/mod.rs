//! Snapshots: the repository, its manifests, and the operations on them.

pub mod create;
pub mod list;
pub mod manifest;
pub mod repository;
pub mod restore;

//! A restore: its options, and all that its steps need.

use crate::snapshot::offsite::store::Store;
use rustic_core::{IndexedFullStatus, Repository};
use std::path::PathBuf;

/// The parts to restore, and the target.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct RestoreOptions {
    /// The snapshot: its name, the beginning of it, its ID in the store, or `latest`.
    pub id: String,
    /// Absolute paths in it. Without any, everything.
    pub paths: Vec<PathBuf>,
    /// The directory below which the paths are restored.
    pub target: PathBuf,
    /// Read existing files, even if their size and time match.
    pub verify: bool,
    /// Count what would be restored, and change nothing.
    pub dry_run: bool,
}

impl RestoreOptions {
    /// Restores the latest snapshot below `target`.
    pub fn new(target: PathBuf) -> RestoreOptions {
        RestoreOptions { id: "latest".into(), paths: Vec::new(), target, verify: false, dry_run: false }
    }
}

/// A restore in progress.
pub(super) struct Job<'r> {
    pub(super) store: &'r Store,
    pub(super) repository: &'r Repository<IndexedFullStatus>,
    pub(super) options: &'r RestoreOptions,
    /// The words for errors of the whole run: "cannot …".
    pub(super) action: &'r str,
}

//! What a caller can choose.

use std::path::PathBuf;

/// Which existing files are replaced. Unless they stay untouched, their metadata is set right in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Those with other content. Another type or size is another content. The same size with the same modification time
    /// is trusted, unless the file is the snapshot's very source and its change time is another one. In doubt the file
    /// is read from the disk and compared with the manifest's hash.
    #[default]
    IfDifferent,
    /// All of them, identical ones too.
    Always,
    /// Those of another type, size or modification time, without reading them.
    IfChanged,
    /// None: they stay untouched, and unread.
    Never,
}

/// How to restore.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The directory that the absolute paths of the snapshot are put below. Made if it is missing.
    pub target: PathBuf,
    /// Remove what the restored directories have and the snapshot has not.
    pub delete: bool,
    /// Which existing files are replaced.
    pub overwrite: Overwrite,
    /// Existing files are read even if size and time match, and everything restored is checked against the manifest's
    /// hash.
    pub verify: bool,
    /// Only report to the monitor what would be done.
    pub dry_run: bool,
    /// How many threads; by default as many as there are processors.
    pub threads: Option<usize>,
}

/// The beginning of temporary names. `--delete` removes those that a killed run left.
pub(super) const TEMPORARY: &str = ".pleach-restore.";

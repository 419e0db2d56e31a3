//! The options of a restore.

use std::path::PathBuf;

/// Which existing files are replaced. Except with `Never`, the metadata of all existing files is corrected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overwrite {
    /// Files with different content. Files of another type or size are different. A file with the same size and the
    /// same modification time is trusted, unless it is the source of the snapshot itself and its change time differs.
    /// In doubt the file is read from the disk and compared with the manifest's hash.
    #[default]
    IfDifferent,
    /// All files, identical ones too.
    Always,
    /// Files of another type, size or modification time, without reading them.
    IfChanged,
    /// None: existing files stay untouched, and unread.
    Never,
}

/// How to restore.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// The directory below which the absolute paths of the snapshot are restored. It must be set, and is made if it is
    /// missing.
    pub target: PathBuf,
    /// Remove from the restored directories the entries that the snapshot does not have.
    pub delete: bool,
    /// Which existing files are replaced.
    pub overwrite: Overwrite,
    /// Read existing files even if size and time match, and check everything restored against the manifest's hash.
    pub verify: bool,
    /// Only report to the monitor what would be done.
    pub dry_run: bool,
    /// How many threads work; by default as many as there are processors.
    pub threads: Option<usize>,
}

/// The beginning of temporary names. Temporary files of killed runs are removed when their directory is restored.
pub(super) const TEMPORARY: &str = ".pleach-restore.";

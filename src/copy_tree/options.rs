//! What a caller can choose.

use crate::content::copy::Engine;

/// What the destination is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Into {
    /// An existing directory gets the sources; anything else is what the one source becomes.
    #[default]
    AsItStands,
    /// A directory that gets the sources (`--target-directory`).
    Directory,
    /// The name of the one source's copy, even if it is an existing directory: then the two are merged
    /// (`--no-target-directory`).
    Name,
}

/// How to copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How content is copied; by default chosen for each file.
    pub engine: Option<Engine>,
    /// What the destination is.
    pub into: Into,
    /// Read both sides back at the end, and compare their hashes.
    pub verify: bool,
    /// Do not enter other filesystems; their mount points are made, empty.
    pub one_file_system: bool,
    /// Only report to the monitor what would be done.
    pub dry_run: bool,
    /// How many threads; by default what suits the device.
    pub threads: Option<usize>,
}

/// The beginning of temporary names.
pub(super) const TEMPORARY: &str = ".pleach-copy.";

//! The options of a copy.

use crate::content::copy::Engine;

/// The meaning of the destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// An existing directory receives the sources. Otherwise it is the name of the one source's copy.
    #[default]
    AsItStands,
    /// A directory that receives the sources (`--target-directory`).
    Directory,
    /// The name of the one source's copy, even if it is an existing directory, which is then merged with the source
    /// (`--no-target-directory`).
    Name,
}

/// How to copy.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// How content is copied; by default chosen for each file.
    pub engine: Option<Engine>,
    /// The meaning of the destination.
    pub into: Placement,
    /// Read both sides again at the end, and compare their hashes.
    pub verify: bool,
    /// Do not enter other filesystems. Their mount points are created as empty directories.
    pub one_file_system: bool,
    /// Only report to the monitor what a run would do.
    pub dry_run: bool,
    /// The number of threads; by default the best number for the device.
    pub threads: Option<usize>,
}

/// The beginning of temporary names.
pub(super) const TEMPORARY: &str = ".pleach-copy.";

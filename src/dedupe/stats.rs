//! The results of a run, in numbers.

use super::skip::Skip;
use crate::extents::bound::Bound;
use std::collections::BTreeMap;

/// The results. All sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Regular files in scope; hard links count once.
    pub files: u64,
    /// Their apparent sizes.
    pub bytes: u64,
    /// File data read, by pleach or by the kernel's comparison; data that was read once and later came from memory
    /// counts once.
    pub read_bytes: u64,
    /// Files that were found equal to another file, and share with it now.
    pub duplicate_files: u64,
    /// Their bytes.
    pub duplicate_bytes: u64,
    /// Bytes shared in files that are not equal as a whole.
    pub range_bytes: u64,
    /// Bytes of files that already shared all their data with another file.
    pub already_shared_bytes: u64,
    /// Bytes submitted to the kernel, summed over the destinations.
    pub submitted_bytes: u64,
    /// Bytes on the disk that nobody holds any more, counted from the extents before and after.
    pub freed_bytes: u64,
    /// How exact that figure is.
    pub freed_is: Bound,
    /// Bytes on the disk that these files dropped but that something else still holds.
    pub pinned_bytes: u64,
    /// Bytes written to free more than was written.
    pub rewritten_bytes: u64,
    /// Whether ranges of files that are not equal were compared.
    pub ranges: Ranges,
    /// Files that were not changed, by reason.
    pub skipped: BTreeMap<Skip, u64>,
    /// Skipped files; the exit status depends on them.
    pub errors: u64,
    /// Files that did not have to be examined because the cache knew them.
    pub cache_hits: u64,
    /// How often a file was opened. A run over files that the cache knows, unchanged, opens none.
    pub opened_files: u64,
    /// Whether the time ran out first.
    pub out_of_time: bool,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// How long it took.
    pub seconds: f64,
}

/// Whether ranges of files that are not equal were compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ranges {
    /// They were, in this run or in an earlier run over the same files. Or no file is large enough.
    #[default]
    Compared,
    /// The options disable it.
    Off,
    /// By default ranges are not compared if all large files already share all their data with others.
    AllShared,
}

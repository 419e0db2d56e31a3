//! What a run did, in numbers.

use super::skip::Skip;
use crate::extents::bound::Bound;
use std::collections::BTreeMap;

/// What was found and done. All sizes are bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Regular files in scope; hard links count once.
    pub files: u64,
    /// Their apparent sizes.
    pub bytes: u64,
    /// File data read, by us or by the kernel's comparison; what was read once and came from memory again counts once.
    pub read_bytes: u64,
    /// Files that were found equal to another one, and share with it now.
    pub duplicate_files: u64,
    /// Their bytes.
    pub duplicate_bytes: u64,
    /// Bytes shared in files that are not equal as a whole.
    pub range_bytes: u64,
    /// Bytes of files that shared all they have with another one already.
    pub already_shared_bytes: u64,
    /// Bytes submitted to the kernel, summed over the destinations.
    pub submitted_bytes: u64,
    /// Bytes on the disk that nobody holds any more, counted from extents before and after.
    pub freed_bytes: u64,
    /// How near that figure is to the truth.
    pub freed_is: Bound,
    /// Bytes on the disk that these files dropped, and that something else still holds.
    pub pinned_bytes: u64,
    /// Bytes written to free more than that.
    pub rewritten_bytes: u64,
    /// Whether ranges of files that are not equal were compared.
    pub ranges: Ranges,
    /// Files that were not changed, by reason.
    pub skipped: BTreeMap<Skip, u64>,
    /// Skipped files; the exit status depends on them.
    pub errors: u64,
    /// Files whose data did not have to be looked at because the cache knew them.
    pub cache_hits: u64,
    /// How often a file was opened: a run over files that are as the cache knows them opens none.
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
pub enum Ranges {
    /// They were, in this run or in an earlier one over the same files. Or no file is large enough.
    #[default]
    Compared,
    /// The options say not to.
    Off,
    /// By default they are not if all large files share all their data with others already.
    AllShared,
}

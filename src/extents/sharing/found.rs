//! The results of a comparison: groups, pairs, and the figures of each file. Types only.

use super::holdings::FileId;

/// Bytes in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    /// Physical bytes, exactly.
    pub bytes: u64,
    /// Bytes in compressed extents that all of the files use: an upper bound, the least that any of the files has.
    pub encoded_bytes: u64,
}

impl Amount {
    /// The sum: exact without compression, otherwise an upper bound.
    pub(crate) fn total(self) -> u64 {
        self.bytes.saturating_add(self.encoded_bytes)
    }
}

/// The bytes that one file has in common with the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileSharing {
    /// Bytes in blocks that another of the files, or this file itself, also holds at another place.
    pub shared: Amount,
    /// Bytes that the kernel marks as shared although none of the files holds them at another place. Another file
    /// does; on Btrfs, which marks whole extents, the mark may belong to another part of the same extent.
    pub marked_only_bytes: u64,
}

/// A set of files that hold the same physical ranges, which none of the other files holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The files, in the order in which they were added; empty unless the group [`Group::is_listed`].
    pub files: Vec<FileId>,
    /// The number of files; one, if a file holds ranges at several places of its own.
    pub file_count: u32,
    /// The bytes in common.
    pub amount: Amount,
    /// The number of ranges; 0 unless the group [`Group::is_listed`].
    pub ranges: u64,
}

impl Group {
    /// Whether its files and ranges are listed: see [`super::Options::listed_holders`].
    pub(crate) fn is_listed(&self) -> bool {
        !self.files.is_empty()
    }
}

/// The physical bytes that two files, or two places of one file (twice the same number), have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    /// The files, in the order in which they were added.
    pub files: [FileId; 2],
    /// The bytes in common.
    pub amount: Amount,
}

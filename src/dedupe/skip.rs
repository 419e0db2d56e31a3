//! Why a file was skipped, and how many files were skipped for each reason.
//!
//! To add a reason: add the variant of `Skip` (`src/monitor/reason.rs`), its name and cause here, its words in
//! `src/program/output/reasons.rs`, a line in the table of `docs/dedupe.md`, and decide it in one of three places.
//! - By what the walk sees (type, size, flags of the status): in `gather`, before the file enters the catalogue. It
//!   then costs nothing and is never opened.
//! - By what an open file shows: in `Opener::open` (`file`). Only files that have another of their size are opened.
//! - By the kernel's answer: in `fs::fidedupe`, as a `Skip`. Such a file may still be the source that others share
//!   with.
//!
//! `docs/dedupe.md` lists the reasons for users.

use super::catalogue::FileId;
pub use crate::monitor::Skip;
use crate::util::mutex::lock;
use rustix::io::Errno;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard};

impl Skip {
    /// The name in the JSON summary.
    pub fn name(self) -> &'static str {
        match self {
            Skip::Differs => "differs",
            Skip::Changed => "changed",
            Skip::Vanished => "vanished",
            Skip::Unreadable => "unreadable",
            Skip::Inline => "inline",
            Skip::Immutable => "immutable",
            Skip::NoPermission => "no_permission",
            Skip::SwapFile => "swap_file",
            Skip::Nocow => "nocow",
            Skip::ReadOnly => "read_only",
            Skip::Sending => "sending",
            Skip::OtherFilesystem => "other_filesystem",
            Skip::Unsupported => "unsupported",
            Skip::Sparse => "sparse",
            Skip::Refused => "refused",
        }
    }

    /// The reason as the cause of an error of one file.
    pub(super) fn cause(self) -> std::io::Error {
        std::io::Error::other(match self {
            Skip::Differs => "its data differs",
            Skip::Changed => "it changed meanwhile",
            Skip::Vanished => "it vanished meanwhile",
            Skip::Unreadable => "it cannot be read",
            Skip::Inline => "it is so small that it lies in the metadata",
            Skip::Immutable => "it is immutable",
            Skip::NoPermission => "only its owner, root, and who may write to it may share its data",
            Skip::SwapFile => "it is a swap file",
            Skip::Nocow => "it is NOCOW and its equal is not, or the other way round",
            Skip::ReadOnly => "it is on a read-only mount",
            Skip::Sending => "its subvolume is being sent by btrfs send",
            Skip::OtherFilesystem => "it is on another filesystem",
            Skip::Unsupported => "its filesystem cannot share extents",
            Skip::Sparse => "it has nearly nothing but holes",
            Skip::Refused => "the kernel refused",
        })
    }

    /// Whether the file could have been shared otherwise; the exit status shows it. Files that differ, are inline, in
    /// use as swap, written in place or gone are no failures.
    pub fn is_error(self) -> bool {
        match self {
            Skip::Differs | Skip::Vanished | Skip::Inline | Skip::SwapFile | Skip::Nocow | Skip::Sparse => false,
            Skip::Changed
            | Skip::Unreadable
            | Skip::Immutable
            | Skip::NoPermission
            | Skip::ReadOnly
            | Skip::Sending
            | Skip::OtherFilesystem
            | Skip::Unsupported
            | Skip::Refused => true,
        }
    }

    /// The reason for a failed opening.
    pub(crate) fn of_opening(errno: Errno) -> Skip {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::STALE => Skip::Vanished,
            // Something else has that name now.
            Errno::LOOP | Errno::NXIO | Errno::XDEV => Skip::Changed,
            _ => Skip::Unreadable,
        }
    }
}

/// The skipped files, each counted once for each reason.
#[derive(Debug, Default)]
pub(crate) struct Skips {
    seen: Mutex<HashSet<(FileId, Skip)>>,
}

impl Skips {
    /// Counts a file for a reason. Returns whether that is new.
    pub(crate) fn add(&self, file: FileId, reason: Skip) -> bool {
        self.seen().insert((file, reason))
    }

    /// The number of files skipped for each reason.
    pub(crate) fn counts(&self) -> BTreeMap<Skip, u64> {
        let mut counts = BTreeMap::new();
        for (_, reason) in self.seen().iter() {
            *counts.entry(*reason).or_default() += 1;
        }
        counts
    }

    /// How many files were skipped for a reason that changes the exit status.
    pub(crate) fn errors(&self) -> u64 {
        self.counts().iter().filter(|(reason, _)| reason.is_error()).map(|(_, files)| files).sum()
    }

    fn seen(&self) -> MutexGuard<'_, HashSet<(FileId, Skip)>> {
        lock(&self.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_counted_once_for_each_reason() {
        let skips = Skips::default();
        assert!(skips.add(FileId(1), Skip::Differs));
        assert!(!skips.add(FileId(1), Skip::Differs));
        skips.add(FileId(1), Skip::Immutable);
        skips.add(FileId(2), Skip::Differs);
        assert_eq!(skips.counts(), BTreeMap::from([(Skip::Differs, 2), (Skip::Immutable, 1)]));
        assert_eq!(skips.errors(), 1);
    }
}

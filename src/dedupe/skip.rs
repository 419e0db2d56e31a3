//! Why a file was skipped, and how many files were skipped for each reason.
//!
//! To add a reason: add the variant of `Skip` with its name and cause (`src/monitor/reason.rs`), its words
//! (`src/program/output/reasons.rs`), a line in the table of `docs/dedupe.md`, and decide it in one of three places.
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

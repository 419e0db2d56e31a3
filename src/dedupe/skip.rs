//! Why a file was skipped, and how many files were skipped for each reason.
//!
//! To add a reason: add a variant and its line in `Skip::about` here, a line to the table in `docs/dedupe.md`, and the
//! decision in one of three places.
//! - By what the walk sees (type, size, flags of the status): in `gather`, before the file enters the catalogue. It
//!   then costs nothing and is never opened.
//! - By what an open file shows: in `Opener::open` (`file`). Only files that have another of their size are opened.
//! - By the kernel's answer: in `fs::fidedupe`, where the variant is one of `Refusal`. Such a file may still be the
//!   source that others share with.

use super::catalogue::FileId;
use crate::fs::fidedupe::Refusal;
use crate::util::mutex::lock;
use rustix::io::Errno;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard};

/// Why a file, or a range of it, was not shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Skip {
    /// The kernel refuses it, or would: this was found out without a call.
    Refused(Refusal),
    /// It was removed after the walk saw it.
    Vanished,
    /// Its data lies beside the metadata, where nothing can be shared.
    Inline,
    /// Its holes are out of proportion to its data.
    Sparse,
}

/// What is said of a reason.
struct About {
    /// Its place in summaries. No two reasons have the same.
    place: u8,
    name: &'static str,
    words: &'static str,
    cause: &'static str,
    is_error: bool,
}

impl Skip {
    /// All that is said of a reason, in one line each.
    fn about(self) -> About {
        let about = |place, name, words, cause, is_error| About { place, name, words, cause, is_error };
        match self {
            Skip::Refused(Refusal::Differs) => {
                about(0, "differs", "looked equal but differ", "its data differs", false)
            }
            Skip::Refused(Refusal::Changed) => about(1, "changed", "changed meanwhile", "it changed meanwhile", true),
            Skip::Vanished => about(2, "vanished", "vanished meanwhile", "it vanished meanwhile", false),
            Skip::Refused(Refusal::Unreadable) => about(3, "unreadable", "unreadable", "it cannot be read", true),
            Skip::Inline => about(
                4,
                "inline",
                "so small that they lie in the metadata",
                "it is so small that it lies in the metadata",
                false,
            ),
            Skip::Refused(Refusal::Immutable) => about(5, "immutable", "immutable", "it is immutable", true),
            Skip::Refused(Refusal::NoPermission) => about(
                6,
                "no_permission",
                "not yours to write",
                "only its owner, root, and who may write to it may share its data",
                true,
            ),
            Skip::Refused(Refusal::SwapFile) => about(7, "swap_file", "swap files", "it is a swap file", false),
            Skip::Refused(Refusal::Nocow) => {
                about(8, "nocow", "NOCOW beside COW", "it is NOCOW and its equal is not, or the other way round", false)
            }
            Skip::Refused(Refusal::ReadOnly) => {
                about(9, "read_only", "on a read-only mount", "it is on a read-only mount", true)
            }
            Skip::Refused(Refusal::Sending) => {
                about(10, "sending", "being sent by btrfs send", "its subvolume is being sent by btrfs send", true)
            }
            Skip::Refused(Refusal::OtherFilesystem) => {
                about(11, "other_filesystem", "on another filesystem", "it is on another filesystem", true)
            }
            Skip::Refused(Refusal::Unsupported) => about(
                12,
                "unsupported",
                "on a filesystem that cannot share extents",
                "its filesystem cannot share extents",
                true,
            ),
            Skip::Sparse => about(13, "sparse", "nearly nothing but holes", "it has nearly nothing but holes", false),
            Skip::Refused(Refusal::Other) => about(14, "refused", "refused by the kernel", "the kernel refused", true),
        }
    }

    /// The name in the JSON summary.
    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// The reason, as text after a number of files.
    pub fn words(self) -> &'static str {
        self.about().words
    }

    /// The reason as the cause of an error of one file.
    pub(super) fn cause(self) -> std::io::Error {
        std::io::Error::other(self.about().cause)
    }

    /// Whether the file could have been shared otherwise; the exit status shows it. Files that differ, are inline, in
    /// use as swap, written in place or gone are no failures.
    pub fn is_error(self) -> bool {
        self.about().is_error
    }

    /// The reason for a failed opening.
    pub(crate) fn of_opening(errno: Errno) -> Skip {
        match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::STALE => Skip::Vanished,
            // Something else has that name now.
            Errno::LOOP | Errno::NXIO | Errno::XDEV => Skip::Refused(Refusal::Changed),
            _ => Skip::Refused(Refusal::Unreadable),
        }
    }
}

/// In the order of a summary.
impl Ord for Skip {
    fn cmp(&self, other: &Skip) -> Ordering {
        self.about().place.cmp(&other.about().place)
    }
}

impl PartialOrd for Skip {
    fn partial_cmp(&self, other: &Skip) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The skipped files, each counted once for each reason.
#[derive(Debug, Default)]
pub struct Skips {
    seen: Mutex<HashSet<(FileId, Skip)>>,
}

impl Skips {
    /// Counts a file for a reason. Returns whether that is new.
    pub fn add(&self, file: FileId, reason: Skip) -> bool {
        self.seen().insert((file, reason))
    }

    /// The number of files skipped for each reason.
    pub fn counts(&self) -> BTreeMap<Skip, u64> {
        let mut counts = BTreeMap::new();
        for (_, reason) in self.seen().iter() {
            *counts.entry(*reason).or_default() += 1;
        }
        counts
    }

    /// How many files were skipped for a reason that changes the exit status.
    pub fn errors(&self) -> u64 {
        self.counts().iter().filter(|(reason, _)| reason.is_error()).map(|(_, files)| files).sum()
    }

    fn seen(&self) -> MutexGuard<'_, HashSet<(FileId, Skip)>> {
        lock(&self.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFFERS: Skip = Skip::Refused(Refusal::Differs);
    const IMMUTABLE: Skip = Skip::Refused(Refusal::Immutable);

    #[test]
    fn a_file_is_counted_once_for_each_reason() {
        let skips = Skips::default();
        assert!(skips.add(FileId(1), DIFFERS));
        assert!(!skips.add(FileId(1), DIFFERS));
        skips.add(FileId(1), IMMUTABLE);
        skips.add(FileId(2), DIFFERS);
        assert_eq!(skips.counts(), BTreeMap::from([(DIFFERS, 2), (IMMUTABLE, 1)]));
        assert_eq!(skips.errors(), 1);
    }
}

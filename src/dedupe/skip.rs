//! Why a file was skipped, and how many files were skipped for each reason.
//!
//! To add a reason: add the variant and its line in `Skip::about`, and decide it in one of three places.
//! - By what the walk sees (type, size, flags of the status): in `gather`, before the file enters the catalogue. It
//!   then costs nothing and is never opened.
//! - By what an open file shows: in `Opener::open` (`file`). Only files that have another of their size are opened.
//! - By the kernel's answer: in `fs::fidedupe`, as a `Refusal`. Such a file may still be the source that others share
//!   with.
//!
//! `docs/dedupe.md` lists the reasons for users.

use super::catalogue::FileId;
use crate::fs::fidedupe::Refusal;
use crate::util::mutex::lock;
use rustix::io::Errno;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard};

/// Why a file, or a range of it, was not shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Skip {
    /// It looked equal, but the kernel found a byte that differs.
    Differs,
    /// It was written to or replaced after the walk saw it.
    Changed,
    /// It was removed after the walk saw it.
    Vanished,
    /// It could not be opened or read.
    Unreadable,
    /// Its data lies beside the metadata, where nothing can be shared.
    Inline,
    /// It may not be changed: `chattr +i`.
    Immutable,
    /// This user neither owns it nor may write to it.
    NoPermission,
    /// It is a swap file in use.
    SwapFile,
    /// One of the two is written in place (`chattr +C`), the other is not.
    Nocow,
    /// It lies on a mount, or in a subvolume, that is read-only.
    ReadOnly,
    /// Its subvolume is being sent.
    Sending,
    /// The kernel reports it as being on another filesystem.
    OtherFilesystem,
    /// The filesystem cannot share extents.
    Unsupported,
    /// Its holes are out of proportion to its data.
    Sparse,
    /// The kernel refused for another reason.
    Refused,
}

/// What is said of a reason.
struct About {
    name: &'static str,
    words: &'static str,
    cause: &'static str,
    is_error: bool,
}

impl Skip {
    /// All that is said of a reason, in one line each.
    fn about(self) -> About {
        let about = |name, words, cause, is_error| About { name, words, cause, is_error };
        match self {
            Skip::Differs => about("differs", "looked equal but differ", "its data differs", false),
            Skip::Changed => about("changed", "changed meanwhile", "it changed meanwhile", true),
            Skip::Vanished => about("vanished", "vanished meanwhile", "it vanished meanwhile", false),
            Skip::Unreadable => about("unreadable", "unreadable", "it cannot be read", true),
            Skip::Inline => about(
                "inline",
                "so small that they lie in the metadata",
                "it is so small that it lies in the metadata",
                false,
            ),
            Skip::Immutable => about("immutable", "immutable", "it is immutable", true),
            Skip::NoPermission => about(
                "no_permission",
                "not yours to write",
                "only its owner, root, and who may write to it may share its data",
                true,
            ),
            Skip::SwapFile => about("swap_file", "swap files", "it is a swap file", false),
            Skip::Nocow => {
                about("nocow", "NOCOW beside COW", "it is NOCOW and its equal is not, or the other way round", false)
            }
            Skip::ReadOnly => about("read_only", "on a read-only mount", "it is on a read-only mount", true),
            Skip::Sending => {
                about("sending", "being sent by btrfs send", "its subvolume is being sent by btrfs send", true)
            }
            Skip::OtherFilesystem => {
                about("other_filesystem", "on another filesystem", "it is on another filesystem", true)
            }
            Skip::Unsupported => about(
                "unsupported",
                "on a filesystem that cannot share extents",
                "its filesystem cannot share extents",
                true,
            ),
            Skip::Sparse => about("sparse", "nearly nothing but holes", "it has nearly nothing but holes", false),
            Skip::Refused => about("refused", "refused by the kernel", "the kernel refused", true),
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
            Errno::LOOP | Errno::NXIO | Errno::XDEV => Skip::Changed,
            _ => Skip::Unreadable,
        }
    }
}

impl From<Refusal> for Skip {
    fn from(refusal: Refusal) -> Skip {
        match refusal {
            Refusal::Differs => Skip::Differs,
            Refusal::Changed => Skip::Changed,
            Refusal::Unreadable => Skip::Unreadable,
            Refusal::Immutable => Skip::Immutable,
            Refusal::NoPermission => Skip::NoPermission,
            Refusal::SwapFile => Skip::SwapFile,
            Refusal::Nocow => Skip::Nocow,
            Refusal::ReadOnly => Skip::ReadOnly,
            Refusal::Sending => Skip::Sending,
            Refusal::OtherFilesystem => Skip::OtherFilesystem,
            Refusal::Unsupported => Skip::Unsupported,
            Refusal::Other => Skip::Refused,
        }
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

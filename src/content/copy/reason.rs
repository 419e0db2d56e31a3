//! Why content was copied and not cloned, with names and words for each reason.

use std::fmt;

/// Why content was copied and not cloned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// Source and destination are on different filesystems.
    OtherFilesystem,
    /// The filesystem does not support reflinks.
    NoReflink,
    /// Only one of the files is copy-on-write (`chattr +C`), or the kernel calls the pair invalid.
    NoCow,
    /// The source is an active swap file.
    SwapFile,
    /// The kernel does not permit it for this file.
    NotPermitted,
    /// A clone was made, but these few blocks would have kept whole extents of the source in use.
    Pinned,
    /// The clone failed for another reason, and a copy succeeded.
    Failed,
}

impl Reason {
    /// The name in the JSON summary's `reasons`.
    pub fn name(self) -> &'static str {
        match self {
            Reason::OtherFilesystem => "other_filesystem",
            Reason::NoReflink => "no_reflink",
            Reason::NoCow => "nocow",
            Reason::SwapFile => "swap_file",
            Reason::NotPermitted => "not_permitted",
            Reason::Pinned => "pinned_extents",
            Reason::Failed => "clone_failed",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::OtherFilesystem => "the source lies on another filesystem",
            Reason::NoReflink => "the filesystem has no reflinks",
            Reason::NoCow => "the file is not copy-on-write",
            Reason::SwapFile => "the file is a swap file",
            Reason::NotPermitted => "the kernel does not permit a clone of this file",
            Reason::Pinned => "sharing these blocks would keep whole extents of the source in use",
            Reason::Failed => "the clone failed",
        })
    }
}

//! The reasons that events give. `output` words them.

/// Why a file, or a range of it, is not shared.
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
    /// The filesystem lacks the space to note the sharing.
    NoSpace,
    /// The kernel refused for another reason.
    Refused,
}

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
            Skip::NoSpace => "no_space",
            Skip::Refused => "refused",
        }
    }

    /// The reason as the cause of an error of one file.
    pub(crate) fn cause(self) -> std::io::Error {
        std::io::Error::other(match self {
            Skip::Differs => "its data differs",
            Skip::Changed => "it changed meanwhile",
            Skip::Vanished => "it vanished meanwhile",
            Skip::Unreadable => "it cannot be read",
            Skip::Inline => "it is so small that it lies in the metadata",
            Skip::Immutable => "it is immutable",
            Skip::NoPermission => "only its owner, root, and who may write to it may share its data",
            Skip::SwapFile => "it is a swap file",
            Skip::Nocow => "one of the two files is NOCOW, the other is not",
            Skip::ReadOnly => "it is on a read-only mount",
            Skip::Sending => "its subvolume is being sent by btrfs send",
            Skip::OtherFilesystem => "it is on another filesystem",
            Skip::Unsupported => "its filesystem cannot share extents",
            Skip::Sparse => "it has nearly nothing but holes",
            Skip::NoSpace => "its filesystem is full: sharing takes some space at first",
            Skip::Refused => "the kernel refused",
        })
    }

    /// Whether the file could have been shared otherwise; the exit status shows it. Files that differ, are inline, in
    /// use as swap, written in place or gone are not failures.
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
            | Skip::NoSpace
            | Skip::Refused => true,
        }
    }
}

/// Why an engine cannot copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineRefusal {
    /// This process may not use io_uring.
    RingForbidden,
    /// The kernel has no io_uring.
    RingMissing,
    /// A ring needs more locked memory than this process may have.
    RingMemory,
    /// Source and destination are on different filesystems.
    OtherFilesystem,
    /// The kernel does not support it for these files.
    Unsupported,
    /// The kernel calls this pair of files invalid.
    Invalid,
    /// The kernel refused with this error number.
    Refused(i32),
}

/// Why dedupe did not share equal data: the extents that hold it could not be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Pinned {
    /// Something outside the scope holds the extent.
    Held,
    /// Something outside the scope may hold it, and part of it would have to be rewritten.
    PerhapsHeld,
    /// Rewriting it would write more than it frees.
    Costly,
    /// The kernel lets no other extent take its place.
    Immovable,
    /// No file could be created for its rest.
    NoPlace,
}

/// Why a cache cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheFault {
    /// Other users can write it.
    WritableByOthers,
    /// It ends too early, or its length does not match its header.
    Truncated,
    /// It has another version of the format.
    OtherVersion,
    /// Its checksum does not match, or its entries are out of order.
    Damaged,
    /// It cannot be read.
    Unreadable {
        /// The cause.
        cause: String,
    },
}

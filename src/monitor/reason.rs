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
    /// The kernel refused for another reason.
    Refused,
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

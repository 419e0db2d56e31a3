//! Answers to the questions of a probe: typed facts, without sentences. `output` turns them into words and JSON. The
//! questions are in `kind`, `mounted`, `machine`, `sharing`, `content`, `metadata` and `subvolume`.

use crate::fs::filesystem::Kind;
use rustix::io::Errno;
use std::ffi::OsString;
use std::path::PathBuf;

/// The answer to a question. Each question has a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The type of the filesystem.
    Filesystem {
        /// The type.
        kind: Kind,
        /// Its name in the table of mounts, if the system shows it.
        name: Option<OsString>,
    },
    /// The mount point.
    MountPoint {
        /// The directory at which the filesystem is mounted.
        point: PathBuf,
        /// The directory of the filesystem that is mounted there: `/` for the whole filesystem.
        root: PathBuf,
    },
    /// Whether the mount is read-only.
    ReadOnly(bool),
    /// The effective user.
    User {
        /// The number of the user.
        uid: u32,
    },
    /// The size of a block in bytes.
    BlockSize(u64),
    /// The bytes that this user can still write.
    SpaceFree(Free),
    /// The files that can still be created. `None`: there is no limit.
    InodesFree(Option<Free>),
    /// The quotas in force.
    Quota(Vec<Quota>),
    /// Whether files can share extents.
    Reflink(Reflink),
    /// Whether equal files can share extents afterwards.
    Dedupe(Dedupe),
    /// Whether the extents of a file can be listed.
    Fiemap(bool),
    /// Whether the filesystem knows the owners of a block.
    ReverseMap(ReverseMap),
    /// The behaviour of copy_file_range(2).
    CopyFileRange(CopyFileRange),
    /// Whether copy_file_range(2) keeps holes.
    CopyKeepsHoles(bool),
    /// Whether holes can be found without reading them.
    Holes(bool),
    /// Whether a range of a file can become a hole.
    PunchHole(bool),
    /// Whether space can be allocated without writing it.
    Unwritten(bool),
    /// Whether files can be created without a name.
    UnnamedFiles(bool),
    /// The requirements of direct I/O.
    DirectIo(DirectIo),
    /// Whether io_uring is available.
    IoUring(IoUring),
    /// Btrfs: whether new files are copied on write.
    CopyOnWrite(bool),
    /// Btrfs: whether new data has checksums.
    Checksums(bool),
    /// Btrfs: the compression that the mount applies to new data, as its option names it.
    Compression(Option<String>),
    /// When a read updates the access time.
    AccessTimes(AccessTimes),
    /// When freed space is reported to the device.
    Discard(Discard),
    /// Whether timestamps have nanoseconds.
    NanosecondTimes(bool),
    /// Whether files can have extended attributes of users.
    UserXattrs(bool),
    /// Whether files can have trusted extended attributes.
    TrustedXattrs(TrustedXattrs),
    /// Whether files can have access control lists.
    Acls(bool),
    /// The length limit of a name, in bytes.
    NameLength(u64),
    /// Btrfs: the subvolume.
    Subvolume {
        /// Its number.
        id: u64,
        /// Its name. `None`: it is the top level.
        name: Option<OsString>,
    },
    /// Btrfs: whether the subvolume is read-only.
    SubvolumeReadOnly(bool),
    /// Btrfs: whether this user can create snapshots of the subvolume.
    Snapshots(bool),
    /// Btrfs: whether this user can delete subvolumes.
    SnapshotDeletion(bool),
}

/// A resource with a free part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Free {
    /// The free part.
    pub free: u64,
    /// The whole.
    pub total: u64,
}

/// A kind of quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Quota {
    /// Btrfs: for groups of subvolumes.
    Qgroups,
    /// For users.
    User,
    /// For groups of users.
    Group,
    /// For projects.
    Project,
}

/// Whether files can share extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reflink {
    /// A clone shares its extents.
    Shared,
    /// A clone succeeds, but shares nothing.
    NotShared,
    /// The kernel refuses a clone.
    Refused,
}

/// The files that can share their extents afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dedupe {
    /// All files.
    AllFiles,
    /// Files that this user owns or may write to.
    OwnFiles,
    /// None.
    Impossible,
}

/// Whether the filesystem knows the owners of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReverseMap {
    /// It has a reverse map.
    Present,
    /// XFS: it was created without a reverse map.
    Missing,
    /// It cannot be asked for the owners.
    Unsupported,
}

/// The behaviour of copy_file_range(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyFileRange {
    /// The copy shares the extents.
    Clones,
    /// The copy shares nothing.
    Copies,
    /// The call fails.
    Fails,
}

/// The requirements of direct I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DirectIo {
    /// Offsets and lengths are multiples of these bytes.
    Aligned(u32),
    /// There is no direct I/O.
    Unsupported,
    /// The kernel does not report them.
    Unknown,
}

/// Whether io_uring is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IoUring {
    /// It is.
    Available,
    /// This process may not use it.
    Forbidden,
    /// The kernel does not have it.
    Missing,
}

/// When a read updates the access time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessTimes {
    /// Never (`noatime`).
    Never,
    /// Once a day, or after a change (`relatime`).
    Daily,
    /// Always (`strictatime`).
    Always,
}

/// When freed space is reported to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Discard {
    /// Later (`discard=async`).
    Later,
    /// At once (`discard`).
    AtOnce,
    /// Never.
    Never,
}

/// Whether files can have trusted extended attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrustedXattrs {
    /// They can.
    Kept,
    /// This user is not root and may not set them.
    OnlyRoot,
    /// The filesystem refuses them.
    Refused,
}

/// `None`: the question makes no sense on this filesystem. An error: the test could not be run.
pub(super) type Reply = Result<Option<Answer>, Errno>;

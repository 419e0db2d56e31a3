//! Owners of ranges, in the reported form. Types only.

use std::path::PathBuf;
use std::rc::Rc;

/// The name of a file that holds an extent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    /// A path.
    Path(PathBuf),
    /// A path from the top of the filesystem, in a subvolume that is not mounted anywhere.
    Unmounted(PathBuf),
    /// No name: the file was deleted, and is still open or about to be removed.
    Deleted,
    /// A name that was not found: hidden below another mount, or changed meanwhile.
    Unknown,
}

/// The part of an extent that an owner holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The range in question, or some of it.
    This,
    /// Only other parts of the same extent, which is freed as a whole (Btrfs).
    Other,
}

/// A file that holds an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Its names; never empty.
    pub names: Rc<[Name]>,
    /// Its inode.
    pub inode: u64,
    /// The subvolume of that inode, on Btrfs.
    pub subvolume: Option<u64>,
    /// The offset of the piece in this file.
    pub logical: u64,
    /// The address of the piece; for a compressed extent, the address of the extent.
    pub physical: u64,
    /// The length of the piece in the file.
    pub length: u64,
    /// Its relation to the range in question.
    pub part: Part,
}

/// A range of a file with its owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The offset in the file.
    pub logical: u64,
    /// The address; for a compressed extent, the address of the extent.
    pub physical: u64,
    /// Its length in the file.
    pub length: u64,
    /// Whether the extent is encoded; then offsets cannot be added to its address.
    pub encoded: bool,
    /// The file itself and all others, in no particular order.
    pub owners: Vec<Owner>,
    /// The number of owners that the kernel did not list.
    pub missed: u64,
}

/// The results for one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    /// Ranges with owners.
    pub ranges: u64,
    /// Owners of all ranges that the kernel did not list.
    pub missed: u64,
    /// Files that hold some of the file's ranges, itself among them.
    pub holders: u64,
    /// Files that hold only other parts of the same extents.
    pub other_holders: u64,
}

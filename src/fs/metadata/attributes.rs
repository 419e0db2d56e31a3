//! The metadata of an inode besides its content, and the parts that a destination refused. Reading and setting them is
//! in `xattr`, `fileattr` and `creator`.

use super::fileattr::{FileAttr, RefusedAttr};
use super::xattr::Xattr;
use crate::fs::status::{Status, Time};

/// The metadata that can be set on an inode.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Type and permission bits; the type is ignored.
    pub mode: u32,
    /// Time of last access.
    pub atime: Time,
    /// Time of last modification.
    pub mtime: Time,
    /// All extended attributes.
    pub xattrs: &'a [Xattr],
    /// Flags and project id, without the flags in [`SEALS`](super::SEALS).
    pub fileattr: FileAttr,
}

impl<'a> Attributes<'a> {
    /// The attributes of `status`, with `xattrs`, without flags.
    pub fn of(status: &Status, xattrs: &'a [Xattr]) -> Self {
        let Status { uid, gid, mode, atime, mtime, .. } = *status;
        Attributes { uid, gid, mode, atime, mtime, xattrs, fileattr: FileAttr::default() }
    }

    /// The same attributes, with flags and a project id.
    pub fn with(self, fileattr: FileAttr) -> Self {
        Attributes { fileattr, ..self }
    }

    /// The same attributes, without the project id, which an inode gets with its seals when it has its name.
    pub fn unsealed(&self) -> Attributes<'a> {
        self.clone().with(FileAttr { project: None, ..self.fileattr })
    }

    pub(super) fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }
}

/// Metadata that a destination refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// The owner or the mode (permission).
    pub ownership: bool,
    /// Extended attributes: no permission, or not supported by the filesystem.
    pub xattrs: Vec<Xattr>,
    /// Flags and the project id.
    pub fileattr: RefusedAttr,
}

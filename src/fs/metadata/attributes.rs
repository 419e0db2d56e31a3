//! The metadata of an inode besides its content, and the parts that a destination refused. Reading and setting them is
//! in `xattr`, `fileattr` and `creator`.

use super::acl;
use super::fileattr::{FileAttr, RefusedAttr, letters};
use super::xattr::Xattr;
use crate::error::Error;
use crate::fs::status::{Status, Time};
use crate::util::text;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

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

impl Refused {
    /// The error for an inode that lacks this metadata. `action` is the verb of the message. `None` if nothing was
    /// refused.
    pub fn error(&self, action: &str) -> Option<Error> {
        let ownership = self.ownership.then(|| "owner or mode".to_string());
        let xattrs = self.xattrs.iter().map(|(name, _)| text::escape(OsStr::from_bytes(name)));
        let flags = (self.fileattr.flags != 0).then(|| format!("chattr flags {}", letters(self.fileattr.flags)));
        let project = self.fileattr.project.then(|| "project id".to_string());
        let what: Vec<String> = ownership.into_iter().chain(xattrs).chain(flags).chain(project).collect();
        if what.is_empty() {
            return None;
        }
        let error = Error::failed(format!("{action} all metadata ({}) of", what.join(", ")));
        Some(match () {
            () if !rustix::process::geteuid().is_root() => error.hint("root may"),
            () if self.acls().next().is_some() => {
                error.hint("its access control list contradicts its mode, or is not supported there")
            }
            () => error,
        })
    }

    /// The refused access control lists.
    pub fn acls(&self) -> impl Iterator<Item = &Xattr> {
        self.xattrs.iter().filter(|(name, _)| acl::is_acl(name))
    }
}

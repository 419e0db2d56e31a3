//! The properties of a directory that new entries inherit.

use crate::fs::metadata::{Attributes, Creator, FileAttr, PROJECT_INHERIT, SEALS};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// The properties of a directory that new entries inherit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inherited {
    /// Whether there is an access control list, or flags.
    pub(crate) inherits: bool,
    /// The project id of a new file.
    pub(crate) project: u32,
}

impl Inherited {
    /// The properties of an open directory that new entries inherit.
    pub(crate) fn of(dir: &OwnedFd) -> Inherited {
        let fileattr = FileAttr::of(dir);
        let flags = fileattr.flags.unwrap_or(0);
        let project = if flags & PROJECT_INHERIT != 0 { fileattr.project.unwrap_or(0) } else { 0 };
        Inherited { inherits: flags != 0 || has_default_acl(dir), project }
    }

    /// Sets on an empty file, which was created there, everything that must be set before its first byte.
    pub(crate) fn prepare(
        &self,
        creator: &Creator,
        file: impl AsFd,
        wanted: &Attributes<'_>,
    ) -> rustix::io::Result<()> {
        match self.inherits {
            true => creator.prepare_inheriting(file, wanted),
            false => creator.prepare(file, wanted),
        }
    }
}

/// Whether a file gets something only after it is in its place: flags that would prevent moving it there, or a project
/// id other than the one it was created with.
pub(super) fn is_sealed(wanted: FileAttr, made_in: u32) -> bool {
    wanted.flags.unwrap_or(0) & SEALS != 0 || wanted.project.is_some_and(|project| project != made_in)
}

fn has_default_acl(dir: &OwnedFd) -> bool {
    // One byte is too small for any ACL: if there is one, the call fails with `RANGE`.
    let found = rustix::fs::fgetxattr(dir, "system.posix_acl_default", &mut [0_u8; 1]);
    matches!(found, Ok(_) | Err(Errno::RANGE))
}

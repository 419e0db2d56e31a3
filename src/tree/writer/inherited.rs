//! What a directory passes on to entries that are made in it.

use crate::fs::metadata::{Attributes, Creator, FileAttr, PROJECT_INHERIT, SEALS};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// What a directory passes on to new entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inherited {
    /// An access control list, flags.
    pub(crate) inherits: bool,
    /// The project id that a file made there has.
    pub(crate) project: u32,
}

impl Inherited {
    /// What an open directory passes on.
    pub(crate) fn of(dir: &OwnedFd) -> Inherited {
        let fileattr = FileAttr::of(dir);
        let flags = fileattr.flags.unwrap_or(0);
        let project = if flags & PROJECT_INHERIT != 0 { fileattr.project.unwrap_or(0) } else { 0 };
        Inherited { inherits: flags != 0 || has_default_acl(dir), project }
    }

    /// Gives an empty file that was made there whatever it must have before its first byte.
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

/// Whether a file gets something only when it is in its place: flags under which it could not be moved there, or
/// another project id than it has by its making.
pub(super) fn is_sealed(wanted: FileAttr, made_in: u32) -> bool {
    wanted.flags.unwrap_or(0) & SEALS != 0 || wanted.project.is_some_and(|project| project != made_in)
}

fn has_default_acl(dir: &OwnedFd) -> bool {
    // One byte is never enough for one, so there is none only where the kernel says so.
    let found = rustix::fs::fgetxattr(dir, "system.posix_acl_default", &mut [0_u8; 1]);
    matches!(found, Ok(_) | Err(Errno::RANGE))
}

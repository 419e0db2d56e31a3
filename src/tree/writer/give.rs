//! Gives an existing inode of the target its metadata, whatever it had before. Files that this run makes get theirs
//! before they have a name; directories get it when everything in them is made.

use crate::fs::metadata::{self, Attributes, Creator, Others, Refused};
use rustix::io::Result;
use std::os::fd::{AsFd, OwnedFd};

/// What became of the attributes of an inode.
#[derive(Debug)]
pub(crate) struct Given {
    /// Metadata that the target did not take.
    pub(crate) refused: Refused,
    /// It had more names of extended attributes than the kernel lists: those that are not wanted were kept.
    pub(crate) has_unlisted: bool,
}

/// Gives an open file or directory these attributes. `removes_others`: it loses all other extended attributes.
pub(crate) fn give(
    creator: &Creator,
    file: impl AsFd,
    attributes: &Attributes<'_>,
    removes_others: bool,
) -> Result<Given> {
    let others = match removes_others {
        true => metadata::remove_other_xattrs(&file, attributes.xattrs)?,
        false => Others::Removed,
    };
    let refused = creator.apply(&file, attributes)?;
    Ok(Given { refused, has_unlisted: others == Others::Unlisted })
}

/// Like [`give`], for an inode that must not be opened, [pinned](super::pin).
pub(crate) fn give_to_node(
    creator: &Creator,
    node: &OwnedFd,
    attributes: &Attributes<'_>,
    removes_others: bool,
) -> Result<Given> {
    let others = match removes_others {
        true => metadata::remove_other_xattrs_of_node(node, attributes.xattrs)?,
        false => Others::Removed,
    };
    let refused = creator.apply_node(node, attributes)?;
    Ok(Given { refused, has_unlisted: others == Others::Unlisted })
}

//! Sets the metadata of an existing inode of the target, whatever it had before. Files that this run creates get their
//! metadata before they have a name. Directories get theirs after all their entries were created.

use crate::fs::metadata::{self, Attributes, Creator, Others, Refused};
use rustix::io::Result;
use std::os::fd::{AsFd, OwnedFd};

/// The result of setting attributes on an inode.
#[derive(Debug)]
pub(crate) struct Given {
    /// Metadata that the target refused.
    pub(crate) refused: Refused,
    /// The inode had more names of extended attributes than the kernel lists, so unwanted ones were kept.
    pub(crate) has_unlisted: bool,
}

/// Sets these attributes on an open file or directory. `removes_others`: all other extended attributes are removed.
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

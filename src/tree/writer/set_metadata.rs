//! Sets the metadata of an inode of the target, whatever it had before: of an existing entry, of a new link or node, of
//! a directory when all its entries were created. New files are in `new_file`.
//!
//! The flags that prevent changes and the project id are its *seal*. They come last, when the inode has all its names.

use crate::fs::metadata::{self, Attributes, Creator, Others, Refused};
use crate::fs::openat;
use crate::fs::status::Status;
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An inode of the target that is not a directory, open as far as it may be.
#[derive(Debug)]
pub(crate) enum Inode {
    /// A regular file.
    File(OwnedFd),
    /// A link or special node, which must not be opened, or a file that nobody may read: [pinned](pin).
    Node(OwnedFd),
}

/// The result of setting attributes on an inode.
#[derive(Debug)]
pub(crate) struct Given {
    /// Metadata that the target refused.
    pub(crate) refused: Refused,
    /// The inode had more names of extended attributes than the kernel lists, so unwanted ones were kept.
    pub(crate) has_unlisted: bool,
}

impl Inode {
    /// Opens the inode that has a name now, if it is the expected one.
    ///
    /// # Errors
    /// `STALE` if it is another inode.
    pub(super) fn open(
        dir: BorrowedFd<'_>,
        name: &[u8],
        is_file: bool,
        is_expected: impl Fn(&Status) -> bool,
    ) -> Result<Inode> {
        if !is_file {
            return pin(dir, name, is_expected).map(Inode::Node);
        }
        match openat::open_file(dir, name) {
            Ok(file) if is_expected(&Status::of(&file)?) => Ok(Inode::File(file)),
            Ok(_) => Err(Errno::STALE),
            Err(errno) => match pin(dir, name, is_expected)? {
                // Nobody may read it, not even its owner. It gets everything except its flags.
                node if errno == Errno::ACCESS => Ok(Inode::Node(node)),
                _ => Err(errno),
            },
        }
    }

    /// Takes permissions that these attributes do not give, before anything else is changed. Its status is `status`.
    pub(crate) fn narrow(&self, creator: &Creator, status: &Status, attributes: &Attributes<'_>) -> Result<()> {
        match self {
            Inode::File(file) => creator.narrow(file, status, attributes),
            Inode::Node(node) => creator.narrow_node(node, status, attributes),
        }
    }

    /// Whether it is open as a regular file.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Inode::File(_))
    }

    /// Sets these attributes. `removes_others`: all other extended attributes are removed. `is_complete`: it has all
    /// its names, so a file is sealed.
    pub(crate) fn give(
        &self,
        creator: &Creator,
        attributes: &Attributes<'_>,
        removes_others: bool,
        is_complete: bool,
    ) -> Result<Given> {
        match self {
            Inode::File(file) if is_complete => give_and_seal(creator, file, attributes, removes_others),
            Inode::File(file) => give(creator, file, attributes, removes_others),
            Inode::Node(node) => give_to_node(creator, node, attributes, removes_others),
        }
    }
}

/// Sets these attributes on an open file or directory, and then seals it. `removes_others`: all other extended
/// attributes are removed.
pub(crate) fn give_and_seal(
    creator: &Creator,
    file: impl AsFd,
    attributes: &Attributes<'_>,
    removes_others: bool,
) -> Result<Given> {
    let mut given = give(creator, &file, attributes, removes_others)?;
    given.refused.fileattr.add(attributes.fileattr.seal(file));
    Ok(given)
}

fn give(creator: &Creator, file: impl AsFd, attributes: &Attributes<'_>, removes_others: bool) -> Result<Given> {
    let others = match removes_others {
        true => metadata::remove_other_xattrs(&file, attributes.xattrs)?,
        false => Others::Removed,
    };
    let refused = creator.apply(&file, &attributes.unsealed())?;
    Ok(Given { refused, has_unlisted: others == Others::Unlisted })
}

fn give_to_node(creator: &Creator, node: &OwnedFd, attributes: &Attributes<'_>, removes_others: bool) -> Result<Given> {
    let others = match removes_others {
        true => metadata::remove_other_xattrs_of_node(node, attributes.xattrs)?,
        false => Others::Removed,
    };
    let refused = creator.apply_node(node, attributes)?;
    Ok(Given { refused, has_unlisted: others == Others::Unlisted })
}

/// Opens the inode that has a name now, without its content, if it is the expected one.
///
/// # Errors
/// `STALE` if it is another inode.
pub(super) fn pin(dir: BorrowedFd<'_>, name: &[u8], is_expected: impl FnOnce(&Status) -> bool) -> Result<OwnedFd> {
    let node = metadata::open_path(dir, name)?;
    if is_expected(&Status::of(&node)?) { Ok(node) } else { Err(Errno::STALE) }
}

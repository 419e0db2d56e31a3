//! Address spaces: which physical addresses may be compared with each other.
//!
//! An address means a place only within its own address space. Two filesystems of one size put their first files at the same
//! addresses, and so do the data device and the realtime device of one XFS. Code that compares the addresses of two files
//! takes a [`CommonSpace`], which exists only for files that share one address space.

use crate::fs::filesystem::{Filesystem, Id, Kind};
use crate::sys::fsxattr::{self, REALTIME};
use rustix::io::Result;
use std::os::fd::AsFd;

/// The address space of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressSpace {
    filesystem: Id,
    /// XFS: the file's data is on the realtime device.
    is_realtime: bool,
}

impl AddressSpace {
    /// The address space of an open file; `None` if its addresses cannot be compared with those of any other file.
    ///
    /// Only filesystems whose FIEMAP is known to give addresses of one linear space have one. Overlayfs gives those of
    /// several filesystems, SMB repeats the offsets in the file, bcachefs counts on each of its devices anew.
    pub fn of(file: impl AsFd) -> Result<Option<AddressSpace>> {
        let kind = Kind::of(&file)?;
        if !matches!(kind, Kind::Xfs | Kind::Btrfs | Kind::Ext4) {
            return Ok(None);
        }
        let is_realtime = kind == Kind::Xfs && fsxattr::get(&file)?.xflags & REALTIME != 0;
        Ok(Some(AddressSpace { filesystem: Filesystem::identify(file)?, is_realtime }))
    }
}

impl From<Id> for AddressSpace {
    /// The address space of a filesystem's main device.
    fn from(filesystem: Id) -> Self {
        AddressSpace { filesystem, is_realtime: false }
    }
}

/// The proof that two files share one address space. Equal addresses then are the same place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommonSpace(());

impl CommonSpace {
    /// That of two open files; `None` if they have none.
    pub(crate) fn of(a: impl AsFd, b: impl AsFd) -> Result<Option<CommonSpace>> {
        let Some(space) = AddressSpace::of(a)? else { return Ok(None) };
        Ok((AddressSpace::of(b)? == Some(space)).then_some(CommonSpace(())))
    }

    /// For tests of pure functions.
    #[cfg(test)]
    pub(crate) fn assumed() -> CommonSpace {
        CommonSpace(())
    }
}

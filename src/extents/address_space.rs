//! Address spaces: which physical addresses may be compared with each other.
//!
//! Two filesystems of the same size put their first files at the same addresses, and so do the data device and the
//! realtime device of one XFS. Each [`Address`] therefore contains its space, and two addresses can be compared only
//! within a space that the code names.

use crate::fs::filesystem::{Filesystem, Id, Kind};
use crate::fs::status::Status;
use crate::sys::fsxattr::{self, REALTIME};
use crate::sys::xfs::geometry;
use crate::util::mutex::lock;
use rustix::io::Result;
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// The address space of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressSpace {
    filesystem: Id,
    /// On XFS: the file's data is on the realtime device.
    is_realtime: bool,
}

impl AddressSpace {
    /// The address space of an open file; `None` if its addresses cannot be compared with those of any other file.
    ///
    /// Only filesystems with a FIEMAP that is known to report addresses of one linear space have one. Overlayfs reports
    /// addresses of several filesystems, SMB repeats the offsets in the file, and bcachefs numbers each of its devices
    /// separately.
    pub fn of(file: impl AsFd) -> Result<Option<AddressSpace>> {
        let kind = Kind::of(&file)?;
        if !matches!(kind, Kind::Xfs | Kind::Btrfs | Kind::Ext4) {
            return Ok(None);
        }
        let is_realtime = kind == Kind::Xfs && fsxattr::get(&file)?.xflags & REALTIME != 0;
        Ok(Some(AddressSpace { filesystem: Filesystem::identify(file)?, is_realtime }))
    }
}

/// The address space of the files that have the device number of an open directory. Finding it for each file would take
/// several system calls. The directory must stay open: otherwise another filesystem could get the number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NearSpace {
    /// The device number. `None`: nothing is known.
    dev: Option<u64>,
    space: Option<AddressSpace>,
}

impl NearSpace {
    /// The space of the files near this directory.
    pub(crate) fn of(dir: impl AsFd) -> NearSpace {
        let find = || -> Result<(Option<u64>, Option<AddressSpace>)> {
            let space = AddressSpace::of(&dir)?;
            // With a realtime device, each file has its own flag.
            let is_single = Kind::of(&dir)? != Kind::Xfs || geometry(&dir).is_ok_and(|geometry| !geometry.realtime);
            Ok((is_single.then_some(Status::of(&dir)?.dev), space))
        };
        let (dev, space) = find().unwrap_or((None, None));
        NearSpace { dev, space }
    }

    /// The address space of an open file with this status, as [`AddressSpace::of`] finds it.
    pub(crate) fn of_file(&self, file: impl AsFd, status: &Status) -> Result<Option<AddressSpace>> {
        if self.dev == Some(status.dev) { Ok(self.space) } else { AddressSpace::of(file) }
    }
}

impl From<Id> for AddressSpace {
    /// The address space of the main device of a filesystem.
    fn from(filesystem: Id) -> Self {
        AddressSpace { filesystem, is_realtime: false }
    }
}

impl AddressSpace {
    /// The address space of two open files; `None` if they have none in common.
    pub(crate) fn common(a: impl AsFd, b: impl AsFd) -> Result<Option<SpaceId>> {
        let Some(space) = AddressSpace::of(a)? else { return Ok(None) };
        Ok((AddressSpace::of(b)? == Some(space)).then(|| space.id()))
    }

    /// A short form, for addresses. It is always the same for the same space.
    pub fn id(self) -> SpaceId {
        static KNOWN: Mutex<Vec<AddressSpace>> = Mutex::new(Vec::new());
        let mut known = lock(&KNOWN);
        let number = known.iter().position(|space| *space == self).unwrap_or_else(|| {
            known.push(self);
            known.len() - 1
        });
        SpaceId(NonZeroU32::MIN.saturating_add(number as u32))
    }
}

/// An address space of this process in four bytes; see [`AddressSpace::id`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpaceId(NonZeroU32);

impl SpaceId {
    /// The address at an offset in this space.
    pub fn at(self, offset: u64) -> Address {
        Address { space: self, offset }
    }

    /// The offset of an address in this space; `None` for an address in another space.
    pub fn offset(self, address: Address) -> Option<u64> {
        (address.space == self).then_some(address.offset)
    }

    /// A space that no file has: for addresses that cannot be compared with those of any other file.
    pub(crate) fn separate() -> SpaceId {
        static NEXT: AtomicU32 = AtomicU32::new(u32::MAX);
        SpaceId(NonZeroU32::new(NEXT.fetch_sub(1, Ordering::Relaxed)).unwrap_or(NonZeroU32::MAX))
    }

    /// An address space for tests of pure functions.
    #[cfg(test)]
    pub(crate) fn assumed() -> SpaceId {
        AddressSpace::from(Id::Device(1)).id()
    }
}

/// A place on a device, with its address space.
///
/// Addresses have neither equality nor order, because a number from one filesystem says nothing about another:
///
/// ```compile_fail
/// use pleach::testing::address_space::Address;
/// fn is_same(one: Address, other: Address) -> bool {
///     one == other
/// }
/// ```
///
/// Code that compares addresses names the space, and addresses of other spaces are ignored:
///
/// ```
/// use pleach::testing::address_space::AddressSpace;
/// use pleach::testing::filesystem::Id;
/// let [one, other] = [1, 2].map(|device| AddressSpace::from(Id::Device(device)).id());
/// assert_eq!(one.offset(one.at(4096)), Some(4096));
/// assert_eq!(one.offset(other.at(4096)), None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Address {
    space: SpaceId,
    offset: u64,
}

impl Address {
    /// Whether two addresses are the same place: the same offset in the same space.
    pub fn is_same_place(self, other: Address) -> bool {
        self.space.offset(other) == Some(self.offset)
    }

    /// The space of the address.
    pub fn space(self) -> SpaceId {
        self.space
    }

    /// The address that is `bytes` further on.
    pub(crate) fn plus(self, bytes: u64) -> Address {
        Address { offset: self.offset.saturating_add(bytes), ..self }
    }

    /// The offset, for code that only has addresses of one file.
    pub(super) fn of_one_file(self) -> u64 {
        self.offset
    }
}

const _: () = assert!(size_of::<Option<Address>>() == 16);

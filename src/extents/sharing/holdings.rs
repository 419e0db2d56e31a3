//! The data collected before the comparison: the extents of files, by address space, as packed intervals.

use super::set_key::Keys;
use crate::extents::address_space::{AddressSpace, SpaceId};
use crate::extents::extent::{Extent, ExtentFlags};
use crate::extents::intervals::{Interval, Intervals, Place};

/// A file of a comparison: the order in which it was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId(pub(super) u32);

impl FileId {
    /// The position of the file among those added.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A file, with the kernel's marks on a piece of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Marked {
    pub(super) number: u32,
    /// The kernel reports that somebody else holds the piece too.
    pub(super) is_shared: bool,
    pub(super) is_unwritten: bool,
}

/// A piece of a file. For a compressed extent, a part of it with the address of the whole.
pub(super) type Packed = Interval<Place<Marked>>;

const _: () = assert!(size_of::<Packed>() == 32);

/// The pieces in one address space, or of a file that has no address space in common with any other.
#[derive(Debug)]
pub(super) struct Space {
    /// Compared byte by byte.
    pub(super) plain: Intervals<Place<Marked>>,
    /// Compared by address alone.
    pub(super) encoded: Intervals<Place<Marked>>,
}

/// The extents of the files to compare.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    pub(super) spaces: Vec<Space>,
    /// The space of each file.
    files: Vec<usize>,
    pub(super) keys: Keys,
}

impl Holdings {
    /// Begins a file of this address space. Without one, the file is compared with no other.
    pub(crate) fn begin(&mut self, addresses: Option<AddressSpace>) -> FileId {
        let id = addresses.map(AddressSpace::id);
        let known = id.and_then(|id| self.spaces.iter().position(|space| space.plain.space() == id));
        let space = known.unwrap_or_else(|| {
            let id = id.unwrap_or_else(SpaceId::separate);
            self.spaces.push(Space { plain: Intervals::new(id), encoded: Intervals::new(id) });
            self.spaces.len() - 1
        });
        self.files.push(space);
        FileId((self.files.len() - 1) as u32)
    }

    /// Adds an extent of a file. An extent without an address is ignored: it is shared with nobody.
    pub(crate) fn add(&mut self, file: FileId, extent: &Extent) {
        let (Some(physical), Some(space)) = (extent.physical, self.files.get(file.index())) else { return };
        if extent.length == 0 {
            return;
        }
        let has = |flag| extent.flags.contains(flag);
        let file =
            Marked { number: file.0, is_shared: has(ExtentFlags::SHARED), is_unwritten: has(ExtentFlags::UNWRITTEN) };
        let place = Place { file, logical: extent.logical };
        let Space { plain, encoded } = &mut self.spaces[*space];
        let at = plain.space().at(physical);
        if has(ExtentFlags::ENCODED) {
            encoded.add(at, extent.length, place);
        } else {
            plain.add_joined(at, extent.length, place);
        }
    }

    /// Removes the file that was begun last, with its extents.
    pub(crate) fn withdraw_last(&mut self) {
        let Some(space) = self.files.pop() else { return };
        let file = self.files.len() as u32;
        let Space { plain, encoded } = &mut self.spaces[space];
        for pieces in [plain, encoded] {
            pieces.remove_last(|place| place.file.number == file);
        }
    }

    /// The number of files that were added.
    pub(crate) fn file_count(&self) -> usize {
        self.files.len()
    }

    /// The number of extents that are kept.
    pub(crate) fn piece_count(&self) -> usize {
        self.spaces.iter().map(|space| space.plain.len() + space.encoded.len()).sum()
    }

    pub(super) fn sort(&mut self) {
        for space in &mut self.spaces {
            space.plain.sort();
            space.encoded.sort();
        }
    }
}

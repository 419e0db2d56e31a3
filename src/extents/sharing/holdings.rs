//! The data collected before the comparison: the extents of files, by address space, in the least memory.

use super::set_key::Keys;
use crate::extents::address_space::AddressSpace;
use crate::extents::extent::{Extent, ExtentFlags};

/// A file of a comparison: the order in which it was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(super) u32);

impl FileId {
    /// The position of the file among those added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A piece of a file in 32 bytes, without its address space, which belongs to its list. For a compressed extent, a part
/// of it with the address of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    pub(super) physical: u64,
    pub(super) length: u64,
    pub(super) logical: u64,
    pub(super) file: u32,
    /// The kernel reports that somebody else holds it too.
    pub(super) is_marked: bool,
    pub(super) is_unwritten: bool,
}

const _: () = assert!(size_of::<Packed>() == 32);

impl Packed {
    pub(super) fn physical_end(&self) -> u64 {
        self.physical.saturating_add(self.length)
    }

    fn continues(&self, before: &Packed) -> bool {
        let flags = |piece: &Packed| (piece.file, piece.is_marked, piece.is_unwritten);
        flags(before) == flags(self)
            && before.physical.checked_add(before.length) == Some(self.physical)
            && before.logical.checked_add(before.length) == Some(self.logical)
    }
}

/// The addresses of one address space, or of a file that has no address space in common with any other.
#[derive(Debug)]
pub(super) struct Space {
    addresses: Option<AddressSpace>,
    /// Compared byte by byte.
    pub(super) plain: Vec<Packed>,
    /// Compared by address alone.
    pub(super) encoded: Vec<Packed>,
}

/// The extents of the files to compare.
#[derive(Debug, Default)]
pub struct Holdings {
    pub(super) spaces: Vec<Space>,
    /// The space of each file.
    files: Vec<usize>,
    pub(super) keys: Keys,
}

impl Holdings {
    /// Begins a file of this address space. Without one, the file is compared with no other.
    pub fn begin(&mut self, addresses: Option<AddressSpace>) -> FileId {
        let is_known = |space: &Space| addresses.is_some() && space.addresses == addresses;
        let space = self.spaces.iter().position(is_known).unwrap_or_else(|| {
            self.spaces.push(Space { addresses, plain: Vec::new(), encoded: Vec::new() });
            self.spaces.len() - 1
        });
        self.files.push(space);
        FileId((self.files.len() - 1) as u32)
    }

    /// Adds an extent of a file. An extent without an address is ignored: it is shared with nobody.
    pub fn add(&mut self, file: FileId, extent: &Extent) {
        let (Some(physical), Some(space)) = (extent.physical, self.files.get(file.index())) else { return };
        if extent.length == 0 {
            return;
        }
        let has = |flag| extent.flags.contains(flag);
        let piece = Packed {
            physical,
            length: extent.length,
            logical: extent.logical,
            file: file.0,
            is_marked: has(ExtentFlags::SHARED),
            is_unwritten: has(ExtentFlags::UNWRITTEN),
        };
        let space = &mut self.spaces[*space];
        if has(ExtentFlags::ENCODED) {
            return space.encoded.push(piece);
        }
        match space.plain.last_mut() {
            Some(last) if piece.continues(last) => last.length += piece.length,
            _ => space.plain.push(piece),
        }
    }

    /// Removes the file that was begun last, with its extents.
    pub fn withdraw_last(&mut self) {
        let Some(space) = self.files.pop() else { return };
        let file = self.files.len() as u32;
        let space = &mut self.spaces[space];
        for pieces in [&mut space.plain, &mut space.encoded] {
            while pieces.pop_if(|piece| piece.file == file).is_some() {}
        }
    }

    /// The number of files that were added.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// The number of extents that are kept.
    pub fn piece_count(&self) -> usize {
        self.spaces.iter().map(|space| space.plain.len() + space.encoded.len()).sum()
    }

    pub(super) fn sort(&mut self) {
        for space in &mut self.spaces {
            for pieces in [&mut space.plain, &mut space.encoded] {
                pieces.sort_unstable_by_key(|piece| (piece.physical, piece.file, piece.logical));
            }
        }
    }
}

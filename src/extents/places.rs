//! The places that files hold on the disk, to count how much of another file lies there too.

use super::address_space::{Address, SpaceId};
use super::extent::{Extent, ExtentFlags};
use super::ranges::{self, Bytes};
use crate::sys::fiemap;
use rustix::io::Result;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// The places of some files: 16 bytes for each extent, and less if extents follow each other.
#[derive(Debug)]
pub(crate) struct Places {
    space: SpaceId,
    plain: Vec<Bytes>,
    /// The starts of compressed extents. FIEMAP shows only the start, for each part of such an extent.
    encoded: Vec<u64>,
}

impl Places {
    /// No places yet, for files of this address space.
    pub(crate) fn new(space: SpaceId) -> Places {
        Places { space, plain: Vec::new(), encoded: Vec::new() }
    }

    /// The address space of these places.
    pub(crate) fn space(&self) -> SpaceId {
        self.space
    }

    /// Adds the places of the wanted extents of a file of the same space. Writes its dirty pages first.
    pub(crate) fn add(&mut self, file: BorrowedFd<'_>, wanted: impl Fn(&Extent) -> bool) -> Result<()> {
        for extent in fiemap::extents(file, true) {
            let extent = extent?;
            let Some(physical) = extent.physical.filter(|_| has_data(&extent) && wanted(&extent)) else { continue };
            if extent.flags.contains(ExtentFlags::ENCODED) {
                if self.encoded.last() != Some(&physical) {
                    self.encoded.push(physical);
                }
            } else {
                let range = physical..physical + extent.length;
                match self.plain.last_mut() {
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => self.plain.push(range),
                }
            }
        }
        Ok(())
    }

    /// Sorts the places. Call it after the last file is added and before the first count.
    pub(crate) fn sort(&mut self) {
        self.encoded.sort_unstable();
        self.encoded.dedup();
        self.plain = ranges::list(std::mem::take(&mut self.plain));
    }

    /// The number of bytes at an address that are among these places. For a compressed extent the address is its start,
    /// and all bytes count or none.
    pub(crate) fn count(&self, address: Address, length: u64, is_encoded: bool) -> u64 {
        let Some(start) = self.space.offset(address) else { return 0 };
        if is_encoded {
            return if self.encoded.binary_search(&start).is_ok() { length } else { 0 };
        }
        ranges::within(&self.plain, &(start..start + length)).map(|part| part.end - part.start).sum()
    }
}

/// The data of a file, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// All data, without holes and reserved space.
    pub(crate) data: u64,
    /// Data in the places of other files.
    pub(crate) shared: u64,
}

/// Counts the data in the first `size` bytes of a file of the same space, and how much of it lies in `others`. The file
/// has no dirty pages.
pub(crate) fn account(file: &OwnedFd, size: u64, others: &Places) -> Account {
    let mut account = Account::default();
    for extent in fiemap::extents(file.as_fd(), false) {
        // Without extent maps there is no sharing: all data counts as written.
        let Ok(extent) = extent else { return Account { data: size, shared: 0 } };
        let length = extent.logical_end().min(size).saturating_sub(extent.logical);
        if !has_data(&extent) {
            continue;
        }
        account.data += length;
        if let Some(physical) = extent.physical {
            account.shared +=
                others.count(others.space.at(physical), length, extent.flags.contains(ExtentFlags::ENCODED));
        }
    }
    account
}

fn has_data(extent: &Extent) -> bool {
    !extent.flags.contains(ExtentFlags::UNWRITTEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_once_and_compressed_ones_by_their_beginning() {
        let space = SpaceId::assumed();
        let mut places = Places { space, plain: vec![50..60, 10..20, 15..30], encoded: vec![7000, 5000, 7000] };
        places.sort();
        assert_eq!((places.plain.as_slice(), places.encoded.as_slice()), (&[10..30, 50..60][..], &[5000, 7000][..]));
        assert_eq!(places.count(space.at(0), 100, false), 30);
        assert_eq!(places.count(space.at(25), 30, false), 10);
        assert_eq!((places.count(space.at(7000), 40, true), places.count(space.at(7001), 40, true)), (40, 0));
    }
}

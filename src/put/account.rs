//! What is shared, counted from the extents: data of the new file that lies on the disk where another file has it.

use crate::extents::extent::{Extent, ExtentFlags};
use crate::extents::ranges::{self, Bytes};
use crate::sys::fiemap;
use rustix::io::Result;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// Places on the disk; 16 bytes each.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    plain: Vec<Bytes>,
    /// Of compressed extents only the beginning is known, for every part of them.
    encoded: Vec<u64>,
}

impl Addresses {
    /// Adds the places of a file's extents. Dirty pages are written first.
    pub(super) fn add(&mut self, file: BorrowedFd<'_>, wanted: impl Fn(&Extent) -> bool) -> Result<()> {
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

    /// Makes it ready to be asked, when all is added.
    pub(super) fn sort(&mut self) {
        self.encoded.sort_unstable();
        self.encoded.dedup();
        self.plain.sort_unstable_by_key(|range| range.start);
        let mut joined = Vec::with_capacity(self.plain.len());
        self.plain.drain(..).for_each(|range| ranges::push(&mut joined, range));
        self.plain = joined;
    }

    /// How much of a place is among these.
    pub(super) fn count(&self, physical: u64, length: u64, is_encoded: bool) -> u64 {
        if is_encoded {
            return if self.encoded.binary_search(&physical).is_ok() { length } else { 0 };
        }
        ranges::within(&self.plain, &(physical..physical + length)).map(|part| part.end - part.start).sum()
    }
}

/// What a file consists of, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Data; the rest are holes and reserved space.
    pub(super) data: u64,
    /// Data that lies where another file has it.
    pub(super) shared: u64,
}

/// Counts the first `size` bytes of a file that is on the disk.
pub(super) fn of(file: &OwnedFd, size: u64, others: &Addresses) -> Account {
    let mut account = Account::default();
    for extent in fiemap::extents(file.as_fd(), false) {
        // Where there are no maps there is no sharing, and all counts as written.
        let Ok(extent) = extent else { return Account { data: size, shared: 0 } };
        let length = extent.logical_end().min(size).saturating_sub(extent.logical);
        if !has_data(&extent) {
            continue;
        }
        account.data += length;
        if let Some(physical) = extent.physical {
            account.shared += others.count(physical, length, extent.flags.contains(ExtentFlags::ENCODED));
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
        let mut addresses = Addresses { plain: vec![50..60, 10..20, 15..30], encoded: vec![7000, 5000, 7000] };
        addresses.sort();
        assert_eq!(
            (addresses.plain.as_slice(), addresses.encoded.as_slice()),
            (&[10..30, 50..60][..], &[5000, 7000][..])
        );
        assert_eq!(addresses.count(0, 100, false), 30);
        assert_eq!(addresses.count(25, 30, false), 10);
        assert_eq!((addresses.count(7000, 40, true), addresses.count(7001, 40, true)), (40, 0));
    }
}

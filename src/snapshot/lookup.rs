//! Finds files by size and fingerprint. It takes 16 bytes a file and is bounded. Pure.
//!
//! A fingerprint is some bits of a hash, so the caller must check each place that is found. If there are more files
//! than room, the largest are kept: they save the most reading and writing.

use crate::fs::status::Time;
use std::hash::{DefaultHasher, Hash, Hasher};

const SIZE_BITS: u32 = 48;
const FINGERPRINT_BITS: u32 = 24;
const PLACE_BITS: u32 = 56;

/// Files by size and fingerprint. Each has the number of a place where the caller finds more about it.
#[derive(Debug, Default)]
pub(crate) struct Lookup {
    /// Size, fingerprint, place, from the highest bits to the lowest; sorted.
    packed: Vec<u128>,
    least: u64,
}

/// Collects the files of a [`Lookup`].
#[derive(Debug)]
pub(crate) struct Gathering {
    places: Lookup,
    most: usize,
}

impl Gathering {
    /// With room for `most` files; at least half as many are kept if there are more.
    pub(crate) fn new(most: usize) -> Self {
        Gathering { places: Lookup::default(), most: most.max(2) }
    }

    /// Adds a file. Only the lowest bits of the fingerprint are used; a place is less than 2⁵⁶.
    pub(crate) fn add(&mut self, size: u64, fingerprint: u64, place: u64) {
        let places = &mut self.places;
        if size < places.least || size >> SIZE_BITS != 0 || place >> PLACE_BITS != 0 {
            return;
        }
        places.packed.push(first(size, fingerprint) | u128::from(place));
        if places.packed.len() >= self.most {
            let half = places.packed.len() / 2;
            places.packed.select_nth_unstable(half);
            places.packed.drain(..half);
            // Some files of this size are gone, so no more of them are added.
            places.least = places.packed.iter().min().map_or(0, |packed| size_of_file(*packed) + 1);
        }
    }

    /// All files that were added and kept.
    pub(crate) fn end(self) -> Lookup {
        let mut places = self.places;
        places.packed.sort_unstable();
        places.packed.shrink_to_fit();
        places
    }
}

impl Lookup {
    /// The size below which files may be missing; 0 if none is missing.
    pub(crate) fn least(&self) -> u64 {
        self.least
    }

    /// Whether there is a file of this size.
    pub(crate) fn has_size(&self, size: u64) -> bool {
        self.from(size, 0).first().is_some_and(|packed| size_of_file(*packed) == size)
    }

    /// The places of all files of this size.
    pub(crate) fn of_size(&self, size: u64) -> impl Iterator<Item = u64> {
        self.from(size, 0).iter().take_while(move |packed| size_of_file(**packed) == size).map(|packed| place(*packed))
    }

    /// The places of files of this size with this fingerprint.
    pub(crate) fn find(&self, size: u64, fingerprint: u64) -> impl Iterator<Item = u64> {
        let wanted = first(size, fingerprint);
        let found = self.from(size, fingerprint).iter();
        found.take_while(move |packed| **packed >> PLACE_BITS == wanted >> PLACE_BITS).map(|packed| place(*packed))
    }

    fn from(&self, size: u64, fingerprint: u64) -> &[u128] {
        if size >> SIZE_BITS != 0 {
            return &[];
        }
        let wanted = first(size, fingerprint);
        self.packed.get(self.packed.partition_point(|packed| *packed < wanted)..).unwrap_or_default()
    }
}

/// The first possible value for this size and fingerprint.
fn first(size: u64, fingerprint: u64) -> u128 {
    let fingerprint = u128::from(fingerprint & ((1 << FINGERPRINT_BITS) - 1));
    u128::from(size) << (FINGERPRINT_BITS + PLACE_BITS) | fingerprint << PLACE_BITS
}

fn place(packed: u128) -> u64 {
    (packed & ((1 << PLACE_BITS) - 1)) as u64
}

fn size_of_file(packed: u128) -> u64 {
    (packed >> (FINGERPRINT_BITS + PLACE_BITS)) as u64
}

/// A fingerprint of an inode. It stays the same as long as nobody changes the inode, under whatever name.
pub(crate) fn identity(ino: u64, mtime: Time, ctime: Time) -> u64 {
    let mut hasher = DefaultHasher::new();
    (ino, mtime, ctime).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(most: usize, files: impl IntoIterator<Item = (u64, u64, u64)>) -> Lookup {
        let mut gathering = Gathering::new(most);
        files.into_iter().for_each(|(size, fingerprint, place)| gathering.add(size, fingerprint, place));
        gathering.end()
    }

    #[test]
    fn files_are_found_by_size_and_fingerprint() {
        let last = (1 << PLACE_BITS) - 1;
        let files = [(5, 7, 1), (5, 7, 0), (5, 8, 2), (6, 7, 3), (1 << 47, 0xff_ffff, last), (5, 6, last)];
        let places = gather(100, files);
        let find = |size, fingerprint| places.find(size, fingerprint).collect::<Vec<_>>();
        assert_eq!(find(5, 7), [0, 1]);
        assert_eq!(find(5, 7 | 1 << 24), [0, 1], "bits that do not fit are ignored");
        assert_eq!((find(5, 6), find(6, 7), find(5, 9), find(7, 7)), (vec![last], vec![3], vec![], vec![]));
        assert_eq!(find(1 << 47, 0xff_ffff), [last]);
        assert_eq!(
            [4, 5, 6, 7, 1 << 47, u64::MAX].map(|size| places.has_size(size)),
            [false, true, true, false, true, false]
        );
        assert_eq!(places.of_size(5).collect::<Vec<_>>(), [last, 0, 1, 2]);
        assert_eq!(places.least(), 0);
    }

    #[test]
    fn what_has_no_number_that_fits_is_left_out() {
        let places = gather(100, [(1 << 48, 1, 1), (1, 1, 1 << 56)]);
        assert!(!places.has_size(1) && !places.has_size(1 << 48));
        assert_eq!(places.find(1 << 48, 1).count(), 0);
    }

    #[test]
    fn where_room_is_scarce_the_largest_are_kept() {
        let places = gather(100, (0..1000).map(|n| (n * 7919 % 1000, n, n)));
        let kept: Vec<_> = (0..1000).filter(|size| places.has_size(*size)).collect();
        assert!((50..=100).contains(&kept.len()), "{}", kept.len());
        assert_eq!(kept, (1000 - kept.len() as u64..1000).collect::<Vec<_>>());
        assert!(places.least() > 0 && places.least() <= 1 + kept[0]);
    }
}

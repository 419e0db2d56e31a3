//! The sweep compared with a naive model: the holders of every single address.

use super::*;
use crate::extents::extent::{Extent, ExtentFlags};
use crate::fs::filesystem::Id;
use crate::monitor::Silent;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const HERE: Id = Id::Device(1);

fn extent(logical: u64, physical: u64, length: u64, flags: ExtentFlags) -> Extent {
    Extent::from_kernel(logical, physical, length, flags.0)
}

fn plain(logical: u64, physical: u64, length: u64) -> Extent {
    extent(logical, physical, length, ExtentFlags::SHARED)
}

fn holdings(files: &[Vec<Extent>]) -> Holdings {
    let mut holdings = Holdings::default();
    for extents in files {
        let file = holdings.begin(Some(HERE.into()));
        extents.iter().for_each(|extent| holdings.add(file, extent));
    }
    holdings
}

fn sharing(files: &[Vec<Extent>]) -> Sharing {
    find(holdings(files), &Options::default(), &Silent).expect("nobody cancels")
}

/// A reported range: group, address, length, and file, offset and length of each holder.
type Told = (usize, u64, u64, Vec<(usize, u64, u64)>);

fn ranges(sharing: &Sharing) -> Vec<Told> {
    let mut told = Vec::new();
    let told_of = |range: &Range<'_>| {
        let holders = range.holders.iter().map(|h| (h.file.index(), h.logical, h.length)).collect();
        (range.group, range.physical, range.length, holders)
    };
    sharing.ranges(|range| told.push(told_of(range)), &Silent).expect("nobody cancels");
    told
}

fn members(group: &Group) -> Vec<usize> {
    group.files.iter().map(|file| file.index()).collect()
}

fn pairs(sharing: &Sharing) -> Vec<(usize, usize, u64)> {
    let told = |pair: &Pair| (pair.files[0].index(), pair.files[1].index(), pair.amount.bytes);
    sharing.pairs.iter().map(told).collect()
}

#[test]
fn a_clone_with_a_change_in_it_shares_the_rest() {
    let original = vec![plain(0, 1000, 100)];
    let copy = vec![plain(0, 1000, 40), extent(40, 5000, 10, ExtentFlags::default()), plain(50, 1050, 50)];
    let sharing = sharing(&[original, copy]);
    assert_eq!(sharing.groups.len(), 1);
    assert_eq!(members(&sharing.groups[0]), [0, 1]);
    assert_eq!((sharing.groups[0].amount.bytes, sharing.groups[0].ranges), (90, 2));
    assert_eq!(
        ranges(&sharing),
        [(0, 1000, 40, vec![(0, 0, 40), (1, 0, 40)]), (0, 1050, 50, vec![(0, 50, 50), (1, 50, 50)])]
    );
    assert_eq!(pairs(&sharing), [(0, 1, 90)]);
    assert_eq!(sharing.files[0].shared.bytes, 90);
    assert_eq!(sharing.files[0].marked_only_bytes, 10, "marked, but none of these files holds it");
    assert_eq!(sharing.files[1].marked_only_bytes, 0);
}

#[test]
fn groups_are_told_apart_by_their_files() {
    let sharing = sharing(&[vec![plain(0, 0, 100)], vec![plain(0, 0, 60)], vec![plain(7, 0, 20)]]);
    let groups: Vec<_> = sharing.groups.iter().map(|group| (members(group), group.amount.bytes)).collect();
    assert_eq!(groups, [(vec![0, 1], 40), (vec![0, 1, 2], 20)]);
    assert_eq!(pairs(&sharing), [(0, 1, 60), (0, 2, 20), (1, 2, 20)]);
}

#[test]
fn a_file_that_shares_with_itself_is_a_group_of_one() {
    let sharing = sharing(&[vec![plain(0, 100, 8), plain(8, 300, 8), plain(16, 100, 8), plain(24, 104, 4)]]);
    assert_eq!(members(&sharing.groups[0]), [0]);
    assert_eq!(sharing.groups[0].amount.bytes, 8);
    assert_eq!(pairs(&sharing), [(0, 0, 8)]);
    assert_eq!(sharing.files[0].shared.bytes, 20, "each place counts");
    assert_eq!(
        ranges(&sharing),
        [(0, 100, 4, vec![(0, 0, 4), (0, 16, 4)]), (0, 104, 4, vec![(0, 4, 4), (0, 20, 4), (0, 24, 4)])]
    );
}

#[test]
fn what_continues_itself_in_all_holders_is_one_range() {
    // The kernel cuts extents where the sharing changes: a third file, not given here, ends in the middle.
    let a = vec![plain(0, 0, 10), extent(10, 10, 10, ExtentFlags::default())];
    let sharing = sharing(&[a, vec![plain(0, 0, 20)]]);
    assert_eq!(ranges(&sharing), [(0, 0, 20, vec![(0, 0, 20), (1, 0, 20)])]);
    assert_eq!(sharing.groups[0].ranges, 1);
}

#[test]
fn compressed_extents_are_compared_by_their_address_alone() {
    let encoded = |logical, physical, length| extent(logical, physical, length, ExtentFlags::ENCODED);
    let a = vec![encoded(0, 4096, 131072), encoded(131072, 8192, 131072)];
    // Cut by an overwrite; and another extent with an uncompressed length that covers the addresses of both.
    let b = vec![encoded(0, 4096, 4096), encoded(8192, 4096, 122880), plain(131072, 4096, 1 << 20)];
    let c = vec![encoded(0, 4000, 131072), encoded(131072, 16384, 10), encoded(131092, 16384, 10)];
    let sharing = sharing(&[a, b, c]);
    let told: Vec<_> = sharing.groups.iter().map(|group| (members(group), group.amount)).collect();
    assert_eq!(told, [(vec![0, 1], Amount { bytes: 0, encoded_bytes: 126976 })]);
    assert_eq!(sharing.pairs.len(), 1);
    assert_eq!(sharing.pairs[0].amount, Amount { bytes: 0, encoded_bytes: 126976 });
    assert_eq!(sharing.files[0].shared, Amount { bytes: 0, encoded_bytes: 131072 });
    assert_eq!(sharing.files[2].shared, Amount::default(), "pieces within one file prove nothing");
}

#[test]
fn without_an_address_nothing_is_shared() {
    for flag in [ExtentFlags::DATA_INLINE, ExtentFlags::DELALLOC, ExtentFlags::UNKNOWN] {
        let file = || vec![extent(0, 0, 4096, flag | ExtentFlags::SHARED)];
        assert_eq!(sharing(&[file(), file()]).groups, []);
    }
}

#[test]
fn equal_addresses_of_two_filesystems_are_different_places() {
    let mut holdings = Holdings::default();
    for filesystem in [HERE, Id::Device(2), Id::Btrfs([0; 16]), HERE] {
        let file = holdings.begin(Some(filesystem.into()));
        holdings.add(file, &plain(0, 0, 4096));
    }
    for _ in 0..2 {
        let file = holdings.begin(None);
        holdings.add(file, &plain(0, 0, 4096));
    }
    let sharing = find(holdings, &Options::default(), &Silent).expect("nobody cancels");
    assert_eq!(sharing.groups.len(), 1);
    assert_eq!(members(&sharing.groups[0]), [0, 3]);
}

#[test]
fn addresses_at_the_end_of_the_world_do_no_harm() {
    let file = || vec![plain(u64::MAX - 5, u64::MAX - 10, u64::MAX), plain(0, 0, 0)];
    let sharing = sharing(&[file(), file()]);
    // An extent ends at the largest offset.
    assert_eq!(sharing.groups[0].amount.bytes, 5);
    assert_eq!(ranges(&sharing).len(), 1);
}

#[test]
fn ten_thousand_holders_of_one_extent_are_one_group_and_no_pairs() {
    let files: Vec<_> = (0..10_000).map(|_| vec![plain(0, 4096, 1 << 20)]).collect();
    let sharing = sharing(&files);
    assert_eq!(sharing.groups.len(), 1);
    assert_eq!(sharing.groups[0].file_count, 10_000);
    assert_eq!(sharing.groups[0].files.len(), 10_000);
    assert_eq!((sharing.pairs.len(), sharing.unpaired_files), (0, 10_000));
}

#[test]
fn where_every_file_begins_elsewhere_the_lists_stay_short() {
    // Each range has another set of holders: 10,000 sets with 5,000 files on average.
    let files: Vec<_> = (0..10_000).map(|n| vec![plain(0, n * 4096, 10_000 * 4096)]).collect();
    let sharing = sharing(&files);
    assert_eq!(sharing.groups.len(), 19_997);
    let listed: u64 = sharing.groups.iter().map(|group| group.files.len() as u64).sum();
    assert!(listed <= 1 << 20, "{listed}");
    assert!(sharing.groups.iter().any(|group| !group.is_listed()));
    assert!(sharing.groups.iter().all(|group| group.amount.bytes >= 4096 && group.file_count > 1));
}

#[test]
fn files_linked_in_small_webs_are_paired_beside_a_large_one() {
    let mut files: Vec<_> = (0..65).map(|_| vec![plain(0, 0, 4096)]).collect();
    files.extend((0..2).map(|_| vec![plain(0, 1 << 30, 8192)]));
    let sharing = sharing(&files);
    assert_eq!(pairs(&sharing), [(65, 66, 8192)]);
    assert_eq!(sharing.unpaired_files, 65);
}

/// A file of up to eight extents on a small disk.
fn some_file() -> impl Strategy<Value = Vec<Extent>> {
    let piece = (0..60u64, 1..20u64, 0..3u64, any::<bool>());
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| {
        let mut logical = 0;
        let place = |(physical, length, gap, is_marked): (u64, u64, u64, bool)| {
            let flags = if is_marked { ExtentFlags::SHARED } else { ExtentFlags::default() };
            let extent = extent(logical + gap, physical, length, flags);
            logical += gap + length;
            extent
        };
        pieces.into_iter().map(place).collect()
    })
}

proptest! {
    #[test]
    fn every_address_is_told_with_all_its_holders(files in proptest::collection::vec(some_file(), 0..6)) {
        // The holders of each address, and their offsets.
        let mut model: BTreeMap<u64, Vec<(usize, u64)>> = BTreeMap::new();
        for (n, file) in files.iter().enumerate() {
            for extent in file {
                for i in 0..extent.length {
                    model.entry(extent.physical.unwrap() + i).or_default().push((n, extent.logical + i));
                }
            }
        }
        model.retain(|_, holders| holders.len() > 1);
        model.values_mut().for_each(|holders| holders.sort());
        let sharing = sharing(&files);

        let mut told: BTreeMap<u64, Vec<(usize, u64)>> = BTreeMap::new();
        let mut of_groups = BTreeMap::new();
        for (group, physical, length, holders) in ranges(&sharing) {
            *of_groups.entry(group).or_insert(0) += length;
            let set: BTreeSet<_> = holders.iter().map(|holder| holder.0).collect();
            prop_assert_eq!(members(&sharing.groups[group]), set.into_iter().collect::<Vec<_>>());
            for i in 0..length {
                let at = holders.iter().map(|(file, logical, _)| (*file, logical + i)).collect();
                prop_assert!(told.insert(physical + i, at).is_none(), "reported twice");
            }
        }
        told.values_mut().for_each(|holders| holders.sort());
        prop_assert_eq!(&told, &model);
        for (n, group) in sharing.groups.iter().enumerate() {
            prop_assert_eq!(of_groups.get(&n), Some(&group.amount.bytes));
        }
        let mut of_pairs: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for holders in model.values() {
            let set: BTreeSet<_> = holders.iter().map(|holder| holder.0).collect();
            for a in &set {
                for b in set.range(a + 1..) {
                    *of_pairs.entry((*a, *b)).or_default() += 1;
                }
                if holders.iter().filter(|holder| holder.0 == *a).count() > 1 {
                    *of_pairs.entry((*a, *a)).or_default() += 1;
                }
            }
        }
        let told: BTreeMap<_, _> = pairs(&sharing).into_iter().map(|(a, b, bytes)| ((a, b), bytes)).collect();
        prop_assert_eq!(told, of_pairs);
        for (n, file) in files.iter().enumerate() {
            let shared = |extent: &Extent| {
                (0..extent.length).filter(|i| model.contains_key(&(extent.physical.unwrap() + i))).count() as u64
            };
            let all: u64 = file.iter().map(shared).sum();
            let unexplained: u64 = file.iter().filter(|e| e.is_shared()).map(|e| e.length - shared(e)).sum();
            prop_assert_eq!(
                sharing.files[n],
                FileSharing { shared: Amount { bytes: all, encoded_bytes: 0 }, marked_only_bytes: unexplained }
            );
        }
    }

    #[test]
    fn of_the_first_files_all_is_told(files in proptest::collection::vec(some_file(), 0..6), first in 0..6u32) {
        let sharing = sharing(&files);
        let mut expected = BTreeMap::new();
        for (group, physical, length, holders) in ranges(&sharing) {
            for (file, logical, _) in holders.into_iter().filter(|holder| holder.0 < first as usize) {
                (0..length).for_each(|i| { expected.insert((file, logical + i), (group, physical + i)); });
            }
        }
        let mut told = BTreeMap::new();
        let each = |range: &Range<'_>| for holder in range.holders {
            (0..range.length).for_each(|i| {
                told.insert((holder.file.index(), holder.logical + i), (range.group, range.physical + i));
            });
        };
        sharing.ranges_of_first(first, each, &Silent).expect("nobody cancels");
        prop_assert_eq!(told, expected);
    }
}

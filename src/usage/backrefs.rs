//! Who else refers to the extents of a set, from Btrfs's extent tree: which extents are shared, and which are freed
//! when the set is deleted.
//!
//! An extent's item counts the references to it from leaves of trees. A leaf that several snapshots of a subvolume have
//! in common is one such reference, but represents one in each snapshot. The item does not show whether an old leaf is
//! in common. Then, and only then, the kernel lists all references to the extent (`LOGICAL_INO`). If the extent is
//! younger than the last snapshot of a tree, its leaf is known to belong to that tree alone.
//!
//! An extent is freed as a whole, when nothing refers to any part of it any more: a file that holds the last reference
//! to a part of an extent frees all of it.
//!
//! Sources: `include/uapi/linux/btrfs_tree.h`, `fs/btrfs/backref.c`.

use super::device::Volume;
use super::groups::{Groups, cut, within};
use super::inodes::Inodes;
use super::metadata::Doomed;
use super::part::{Part, Totals};
use super::references::{Reference, Referrers, extent_of, sum};
use crate::error::{Error, Result};
use crate::extents::intervals::covered_bytes;
use crate::monitor::{Amount, Monitor};
use crate::sys::btrfs::logical;
use crate::sys::btrfs::tree::{
    self, EXTENT_DATA_REF, EXTENT_ITEM, EXTENT_OWNER_REF, EXTENT_TREE, Item, Key, ROOT_ITEM, ROOT_TREE,
    SHARED_DATA_REF, Step,
};
use crate::util::pool;
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};

/// `btrfs_root_item.last_snapshot`.
const LAST_SNAPSHOT: usize = 200;
/// Bytes before the inline references, the size of `struct btrfs_extent_item`: refs, generation, flags.
const INLINE_REFS: usize = 24;
/// `struct btrfs_item`: what the place of an item takes in its leaf.
const PLACE: u64 = 25;
/// An extent's item and its place, without references.
const EXTENT_BYTES: u64 = PLACE + INLINE_REFS as u64;

/// Extents between two reports of progress.
const REPORT: u64 = 4096;
/// The fewest ranges that are worth a thread.
const FEWEST: usize = 2048;

/// The bytes that a volume would get back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Freed {
    /// Whole extents that only the set refers to.
    pub(super) bytes: u64,
    /// Bytes that may or may not be freed: that could not be determined.
    pub(super) undecided: u64,
    /// Bytes of items in the extent tree that go with doomed subvolumes.
    pub(super) entries: u64,
    /// Bytes of all items about the extents of the set.
    pub(super) items: u64,
}

/// The files of a set in one subvolume.
#[derive(Debug)]
pub(super) enum Held {
    /// All of them.
    Whole,
    These(Inodes),
}

/// The files of a set, by the number of their subvolume.
pub(super) type Holders = HashMap<u64, Held>;

/// Completes the sums of the paths and of the set, which has these files, and determines the bytes that the set frees.
/// Runs on the threads of the calling pool.
pub(super) fn judge(
    volume: &Volume,
    holders: &Holders,
    doomed: Option<&Doomed>,
    paths: &mut [Part],
    set: &mut Part,
    monitor: &dyn Monitor,
) -> Result<Freed> {
    let last_snapshots = last_snapshots(volume).map_err(|errno| unreadable(volume, errno))?;
    let judge = Judge { volume, holders, doomed, last_snapshots, monitor };
    let all = set.references(volume).sorted();
    let of_paths: Vec<_> = paths.iter_mut().map(|part| part.references(volume).sorted()).collect();
    let share = (all.len() / (pool::threads() * 4)).max(FEWEST);
    let results = pool::try_map(cut(all, share), |all| {
        let of_paths = of_paths.iter().map(|path| within(path, all)).collect();
        Court::new(&judge, all, of_paths).sit()
    })?;
    let mut freed = Freed::default();
    for (one, totals) in results {
        freed.bytes += one.bytes;
        freed.undecided += one.undecided;
        freed.entries += one.entries;
        freed.items += one.items;
        let parts = paths.iter_mut().map(|part| &mut part.totals).chain([&mut set.totals]);
        parts.zip(totals).for_each(|(sum, totals)| sum.add(&totals));
    }
    Ok(freed)
}

fn unreadable(volume: &Volume, errno: Errno) -> Error {
    Error::io("read the trees of the filesystem of", &volume.path, errno)
}

/// One thread's work on a part of the extent tree.
struct Court<'a> {
    judge: &'a Judge<'a>,
    all: Groups<'a>,
    paths: Vec<Groups<'a>>,
    /// The totals of the paths and, last, of the set.
    totals: Vec<Totals>,
    freed: Freed,
    /// The extent while its references are being read.
    extent: Option<Extent>,
    judged: u64,
}

impl<'a> Court<'a> {
    fn new(judge: &'a Judge<'a>, all: &'a [Reference], paths: Vec<Groups<'a>>) -> Self {
        let totals = vec![Totals::default(); paths.len() + 1];
        Court { judge, all: Groups::new(all), paths, totals, freed: Freed::default(), extent: None, judged: 0 }
    }

    fn sit(mut self) -> Result<(Freed, Vec<Totals>)> {
        let Some((first, last)) = self.all.bounds() else { return Ok((self.freed, self.totals)) };
        let Judge { volume, monitor, .. } = *self.judge;
        let (from, to) = (Key::new(first, EXTENT_ITEM, 0), Key::last_of(last));
        tree::search(&volume.fd, EXTENT_TREE, from, to, |item| self.item(&item))
            .map_err(|errno| unreadable(volume, errno))?;
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        // Extents that the tree does not have: written since, or deleted.
        while self.all.first().is_some() {
            self.conclude();
        }
        Ok((self.freed, self.totals))
    }

    fn item(&mut self, item: &Item<'_>) -> Step {
        let at = item.key.objectid;
        while self.all.first().is_some_and(|wanted| wanted < at) {
            self.conclude();
        }
        let seek = |wanted: Option<u64>| match wanted {
            Some(wanted) => Step::Seek(Key::new(wanted, EXTENT_ITEM, 0)),
            None => Step::Stop,
        };
        let wanted = self.all.first();
        if wanted != Some(at) {
            return seek(wanted);
        }
        match (&mut self.extent, item.key.kind) {
            (None, EXTENT_ITEM) => self.extent = self.judge.begin(item),
            // If the item has no room for all references, the others follow it as items of their own.
            (Some(extent), kind @ (EXTENT_DATA_REF | SHARED_DATA_REF)) => {
                self.judge.refer(extent, kind, item, 0);
            }
            _ => {}
        }
        if self.extent.as_ref().is_some_and(Extent::is_complete) {
            self.conclude();
            if self.judge.monitor.is_cancelled() {
                return Step::Stop;
            }
            return seek(self.all.first());
        }
        Step::Next
    }

    /// Decides about the next extent, after all of its items were read.
    fn conclude(&mut self) {
        let group = self.all.next();
        let extent = self.extent.take();
        let verdict = self.judge.judge(extent.as_ref(), group);
        if let Some(extent) = &extent
            && let Some(doomed) = self.judge.doomed
        {
            let is_freed = verdict.freed > 0;
            let all = extent.described + EXTENT_BYTES;
            let gone = if is_freed { all } else { extent.doomed };
            self.freed.items += all;
            self.freed.entries += gone;
            doomed.lose(extent.start, gone, is_freed || extent.is_item_doomed);
        }
        let of_paths =
            self.paths.iter_mut().map(|path| group.first().map_or(&[][..], |first| path.take(extent_of(first))));
        for (group, totals) in of_paths.chain([group]).zip(&mut self.totals) {
            match verdict.is_shared {
                true => totals.shared_bytes += covered_bytes(group),
                false => totals.exclusive_bytes += sum(group),
            }
        }
        self.freed.bytes += verdict.freed;
        self.freed.undecided += verdict.undecided;
        self.judged += 1;
        if self.judged.is_multiple_of(REPORT) {
            self.judge.monitor.advance(Amount::default());
        }
    }
}

/// The generation of the last snapshot of each tree that contains files: younger leaves belong to that tree alone.
fn last_snapshots(volume: &Volume) -> rustix::io::Result<HashMap<u64, u64>> {
    let mut last = HashMap::new();
    tree::search(&volume.fd, ROOT_TREE, Key::first_of(logical::TOP_LEVEL), Key::MAX, |item| {
        if item.key.kind == ROOT_ITEM {
            let generation = last.entry(item.key.objectid).or_insert(0);
            *generation = item.u64(LAST_SNAPSHOT).unwrap_or(u64::MAX).max(*generation);
        }
        Step::Next
    })?;
    Ok(last)
}

/// An extent of the extent tree, while references to it are read.
#[derive(Debug)]
struct Extent {
    start: u64,
    length: u64,
    generation: u64,
    /// The total number of its references.
    total: u64,
    /// The number of references read so far.
    read: u64,
    /// The number of entries with these references: one for each file, or each leaf, that refers to it.
    entries: u64,
    /// A reference is held by a file outside the set.
    is_outside: bool,
    /// The bytes of all entries, and of those that go with doomed subvolumes.
    described: u64,
    doomed: u64,
    /// An entry that goes is an item of its own.
    is_item_doomed: bool,
    /// The leaves that refer to it may be in several trees.
    may_be_common: bool,
}

impl Extent {
    fn is_complete(&self) -> bool {
        self.read >= self.total
    }
}

/// The facts about an extent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Verdict {
    is_shared: bool,
    freed: u64,
    undecided: u64,
}

struct Judge<'a> {
    volume: &'a Volume,
    holders: &'a Holders,
    doomed: Option<&'a Doomed>,
    last_snapshots: HashMap<u64, u64>,
    monitor: &'a dyn Monitor,
}

impl Judge<'_> {
    /// Whether the set has this file.
    fn has(&self, tree: u64, inode: u64) -> bool {
        match self.holders.get(&tree) {
            Some(Held::Whole) => true,
            Some(Held::These(inodes)) => inodes.contains(inode),
            None => false,
        }
    }

    /// An extent and the references in its own item.
    fn begin(&self, item: &Item<'_>) -> Option<Extent> {
        let mut extent = Extent {
            start: item.key.objectid,
            length: item.key.offset,
            generation: item.u64(8)?,
            total: item.u64(0)?,
            read: 0,
            entries: 0,
            is_outside: false,
            described: 0,
            doomed: 0,
            is_item_doomed: false,
            may_be_common: false,
        };
        let mut at = INLINE_REFS;
        while let Some(kind) = item.u8(at) {
            at += match kind {
                // A reference to a leaf has the leaf before its count; a reference to a file has its own structure
                // there.
                EXTENT_DATA_REF => self.refer(&mut extent, kind, item, at + 1).map_or(usize::MAX / 2, |()| 29),
                SHARED_DATA_REF => self.refer(&mut extent, kind, item, at + 9).map_or(usize::MAX / 2, |()| 13),
                EXTENT_OWNER_REF => 9,
                // An unknown kind: the kernel will list who else refers to the extent.
                _ => {
                    extent.may_be_common = true;
                    break;
                }
            };
        }
        Some(extent)
    }

    /// One entry of references: from a file of a tree, or from a leaf.
    fn refer(&self, extent: &mut Extent, kind: u8, item: &Item<'_>, at: usize) -> Option<()> {
        let is_inline = item.key.kind == EXTENT_ITEM;
        let (count, goes, size) = if kind == EXTENT_DATA_REF {
            let (tree, inode) = (item.u64(at)?, item.u64(at + 8)?);
            extent.is_outside |= !self.has(tree, inode);
            let is_young = self.last_snapshots.get(&tree).is_some_and(|last| extent.generation > *last);
            extent.may_be_common |= !is_young;
            let goes = self.doomed.is_some_and(|doomed| doomed.has_tree(tree));
            (item.u32(at + 24)?, goes, if is_inline { 29 } else { PLACE + 28 })
        } else {
            extent.may_be_common = true;
            let leaf = if is_inline { item.u64(at.checked_sub(8)?)? } else { item.key.offset };
            let goes = self.doomed.is_some_and(|doomed| doomed.has_leaf(leaf));
            (item.u32(at)?, goes, if is_inline { 13 } else { PLACE + 4 })
        };
        extent.described += size;
        extent.doomed += if goes { size } else { 0 };
        extent.is_item_doomed |= goes && !is_inline;
        extent.entries += 1;
        extent.read += u64::from(count);
        Some(())
    }

    fn judge(&self, extent: Option<&Extent>, group: &[Reference]) -> Verdict {
        let sums =
            |field: fn(&Referrers) -> u32| group.iter().map(|reference| u64::from(field(&reference.by))).sum::<u64>();
        let (count, leaving) = (sums(|by| by.count), sums(|by| by.leaving));
        let Some(extent) = extent else {
            return Verdict { undecided: covered_bytes(group), ..Verdict::default() };
        };
        let is_held = extent.is_outside || leaving < count || extent.total > leaving;
        if !extent.may_be_common && extent.is_complete() {
            let freed = if is_held { 0 } else { extent.length };
            return Verdict { is_shared: extent.entries > 1, freed, undecided: 0 };
        }
        // If a file outside has one entry and the set has a reference, they have a leaf in common.
        let is_surely_shared = extent.entries > 1 || extent.is_outside;
        if is_surely_shared && is_held {
            return Verdict { is_shared: true, ..Verdict::default() };
        }
        match logical::logical_to_inodes(&self.volume.fd, extent.start) {
            Ok(references) => {
                let trees: HashSet<_> = references.found.iter().map(|reference| reference.root).collect();
                let is_outside = trees.iter().any(|tree| !self.holders.contains_key(tree));
                let is_held = is_held || is_outside || references.total() > leaving;
                let freed = if is_held { 0 } else { extent.length };
                Verdict { is_shared: is_surely_shared || trees.len() > 1, freed, undecided: 0 }
            }
            Err(_) => {
                let undecided = if is_held { 0 } else { extent.length };
                Verdict { is_shared: is_surely_shared, freed: 0, undecided }
            }
        }
    }
}

//! Reads the inodes of a Btrfs subvolume in one sweep over its tree: sizes, link counts, and every reference to an
//! extent with its real length. Opens no file.
//!
//! Source: `include/uapi/linux/btrfs_tree.h` (`struct btrfs_inode_item`).

use super::device::Device;
use super::inodes::Inodes;
use super::part::{Part, Totals};
use super::references::{References, Referrers};
use super::runs::{Cursor, Members, Reached, cut};
use crate::error::{Error, Result};
use crate::extents::address_space::Address;
use crate::monitor::{Amount, Monitor};
use crate::sys::btrfs::tree::{self, EXTENT_DATA, INODE_ITEM, Item, Key, Step};
use crate::sys::btrfs::{ExtentPart, FileExtent};
use crate::util::mutex::lock;
use crate::util::pool;
use rustix::fs::FileType;
use std::ops::Range;
use std::sync::Mutex;

/// Inodes between two reports of progress.
const REPORT: u64 = 4096;
/// References that a thread collects before it adds them to the common list.
const OWN: usize = 256;

/// Counts the inodes of a device and their extents, for each path of `paths` and for the set. Runs on the threads of
/// the calling pool: if the tree is not cached, they wait for leaves in several parts of the tree at once.
///
/// Returns false if the subvolume was deleted meanwhile. Then the counts are of no use.
pub(super) fn sweep(device: &Device, paths: &mut [Part], set: &mut Part, monitor: &dyn Monitor) -> Result<bool> {
    let Some(inodes) = set.inodes.get_mut(device.number).map(std::mem::take) else { return Ok(true) };
    let runs = |inodes: Option<&Inodes>| inodes.into_iter().flat_map(Inodes::runs).collect::<Vec<_>>();
    let members: Vec<_> = paths.iter().map(|path| runs(path.inodes.get(device.number))).collect();
    let volume = &device.volume;
    let segments = cut(&runs(Some(&inodes)), inodes.count());
    // The references of the set are last.
    let references = paths.iter_mut().map(|part| part.references(volume));
    let references: Vec<_> = references.chain([set.references(volume)]).map(Mutex::new).collect();
    let sums = pool::try_map(&segments, |wanted| {
        let (wanted, members) = (Cursor::new(wanted), Members::new(&members));
        Sweep { device, inodes: &inodes, wanted, members, counts: Counts::new(&references), monitor }.run()
    });
    let sums = match sums {
        Err(error) if error.is_not_found() => return Ok(false),
        sums => sums?,
    };
    drop(references);
    set.inodes[device.number] = inodes;
    for totals in sums {
        let parts = paths.iter_mut().map(|part| &mut part.totals).chain([&mut set.totals]);
        parts.zip(totals).for_each(|(sum, totals)| sum.add(&totals));
    }
    Ok(true)
}

/// One thread's work on a part of the tree.
struct Sweep<'a, 'b> {
    device: &'a Device,
    inodes: &'a Inodes,
    wanted: Cursor<'a>,
    members: Members<'a>,
    counts: Counts<'a, 'b>,
    monitor: &'a dyn Monitor,
}

impl Sweep<'_, '_> {
    fn run(mut self) -> Result<Vec<Totals>> {
        let (Some(first), Some(last)) = (self.wanted.first(), self.wanted.last()) else { return Ok(Vec::new()) };
        let Sweep { device, monitor, .. } = self;
        let (mut file, mut seen) = (File::default(), 0);
        let each = |item: Item<'_>| {
            if item.key.kind == INODE_ITEM {
                seen += 1;
                if seen % REPORT == 0 {
                    monitor.advance(Amount { files: REPORT, bytes: 0 });
                    if monitor.is_cancelled() {
                        return Step::Stop;
                    }
                }
            }
            self.item(&mut file, &item)
        };
        tree::search(&device.volume.fd, device.tree, Key::first_of(first), Key::last_of(last), each)
            .map_err(|errno| Error::io("read the trees of the filesystem of", &device.volume.path, errno))?;
        if monitor.is_cancelled() {
            return Err(Error::interrupted());
        }
        monitor.advance(Amount { files: seen % REPORT, bytes: 0 });
        Ok(self.counts.finish())
    }

    fn item(&mut self, file: &mut File, item: &Item<'_>) -> Step {
        let inode = item.key.objectid;
        match self.wanted.reach(inode) {
            Reached::Within => {}
            Reached::Before(start) => return Step::Seek(Key::first_of(start)),
            Reached::End => return Step::Stop,
        }
        match item.key.kind {
            INODE_ITEM => {
                let Some((begun, size)) = File::begin(item, self.inodes) else { return next_inode(inode) };
                *file = begun;
                if self.members.reach(inode) {
                    self.counts.holders.clear();
                    self.counts.holders.extend(self.members.lists());
                }
                self.counts.each(|totals| {
                    totals.files += 1;
                    totals.apparent_bytes = totals.apparent_bytes.saturating_add(size);
                });
            }
            EXTENT_DATA if file.inode == inode => match FileExtent::read(item) {
                Some(FileExtent::Inline(length)) => self.counts.each(|totals| totals.inline_bytes += length),
                Some(FileExtent::Data(part)) => {
                    let Some(range) = on_disk(&part) else { return Step::Next };
                    let (offset, length) = (range.start, range.end - range.start);
                    let at = self.device.volume.space.at(part.extent).plus(offset.into());
                    let by = Referrers { offset, count: 1, leaving: file.leaves.into() };
                    self.counts.each(|totals| {
                        totals.references += 1;
                        totals.disk_bytes += u64::from(length);
                    });
                    self.counts.refer((at, length, by));
                }
                None => {}
            },
            // Directories can have any number of names.
            _ if file.inode != inode => return next_inode(inode),
            _ => {}
        }
        Step::Next
    }
}

/// A reference that is not in a list yet.
type Reference = (Address, u32, Referrers);

/// The counts of one thread, for the paths and, last, for the set.
struct Counts<'a, 'b> {
    /// The paths that contain the present file.
    holders: Vec<usize>,
    totals: Vec<Totals>,
    own: Vec<Vec<Reference>>,
    all: &'a [Mutex<&'b mut References>],
}

impl<'a, 'b> Counts<'a, 'b> {
    fn new(all: &'a [Mutex<&'b mut References>]) -> Self {
        let (totals, own) = (vec![Totals::default(); all.len()], vec![Vec::new(); all.len()]);
        Counts { holders: Vec::new(), totals, own, all }
    }

    fn each(&mut self, mut change: impl FnMut(&mut Totals)) {
        for part in self.holders.iter().copied().chain([self.all.len() - 1]) {
            change(&mut self.totals[part]);
        }
    }

    fn refer(&mut self, reference: Reference) {
        for part in self.holders.iter().copied().chain([self.all.len() - 1]) {
            self.own[part].push(reference);
            if self.own[part].len() >= OWN {
                give(&mut self.own[part], &self.all[part]);
            }
        }
    }

    fn finish(mut self) -> Vec<Totals> {
        self.own.iter_mut().zip(self.all).for_each(|(own, all)| give(own, all));
        self.totals
    }
}

fn give(own: &mut Vec<Reference>, all: &Mutex<&mut References>) {
    let mut all = lock(all);
    own.drain(..).for_each(|(at, length, by)| all.add(at, length, by));
}

fn next_inode(inode: u64) -> Step {
    inode.checked_add(1).map_or(Step::Stop, |next| Step::Seek(Key::first_of(next)))
}

/// A regular file, while its items are read.
#[derive(Default)]
struct File {
    inode: u64,
    /// All its names are in the set.
    leaves: bool,
}

impl File {
    /// The file of an inode's item, and its size; `None` if it is not a regular file.
    fn begin(item: &Item<'_>, inodes: &Inodes) -> Option<(File, u64)> {
        let (size, links, mode) = (item.u64(16)?, item.u32(40)?, item.u32(52)?);
        if FileType::from_raw_mode(mode) != FileType::RegularFile {
            return None;
        }
        let inode = item.key.objectid;
        let leaves = links <= 1 || inodes.names(inode) >= u64::from(links);
        Some((File { inode, leaves }, size))
    }
}

/// The bytes of its extent, by their places on the disk, that a part uses; `None` if its end overflows.
fn on_disk(part: &ExtentPart) -> Option<Range<u32>> {
    let ExtentPart { offset, disk, decoded, .. } = *part;
    let end = offset.checked_add(part.length)?;
    let range = match part.compressed {
        false => offset..end,
        // A part of the data is scaled to the same part of its compressed form: adjacent parts stay adjacent.
        true if end <= decoded => scale(offset, disk, decoded)..scale(end, disk, decoded),
        true => 0..disk,
    };
    Some(u32::try_from(range.start).ok()?..u32::try_from(range.end).ok()?)
}

fn scale(offset: u64, length: u64, decoded: u64) -> u64 {
    let scaled = u128::from(offset) * u128::from(length) / u128::from(decoded.max(1));
    u64::try_from(scaled).unwrap_or(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(disk: u64, decoded: u64, offset: u64, length: u64, compressed: bool) -> ExtentPart {
        let (logical, extent, written, foreign) = (0, 1 << 20, true, false);
        ExtentPart { logical, extent, disk, decoded, offset, length, written, compressed, foreign }
    }

    #[test]
    fn parts_of_a_compressed_extent_tile_what_lies_on_the_disk() {
        let range = |offset, length| on_disk(&part(12_288, 131_072, offset, length, true)).unwrap();
        assert_eq!(range(0, 131_072), 0..12_288);
        assert_eq!(range(0, 4096).end, range(4096, 8192).start);
        assert_eq!(range(126_976, 4096).end, 12_288);
    }

    #[test]
    fn a_garbled_part_takes_nothing() {
        assert_eq!(on_disk(&part(4096, 4096, 0, 4096, false)), Some(0..4096));
        assert_eq!(on_disk(&part(4096, 4096, u64::MAX, 4096, false)), None);
    }
}

//! The owners of all blocks of an XFS, in one sweep over its reverse map (`GETFSMAP`). They show which bytes of a set
//! of files are shared, and which of these nothing outside the set holds.
//!
//! The records arrive in the order of their addresses, one for each owner. So everything is counted on the way, and
//! nothing is kept of a record after its last block. Each allocation group is read by one thread.

use super::files::Files;
use crate::error::{Error, Result};
use crate::extents::intervals::{Bounds, Holder, Interval, Sweep};
use crate::extents::ranges::Bytes;
use crate::monitor::Monitor;
use crate::sys::getfsmap::{self, Owner, Record};
use crate::sys::xfs;
use crate::usage::device::Volume;
use crate::util::pool;
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many records may be read for each file of the set, and for each extent. Opening a file, and reading an extent,
/// takes about as long as reading this many records.
const WORTH_A_FILE: u64 = 6;
const WORTH_AN_EXTENT: u64 = 2;
/// Records between two looks at the monitor and at the limit.
const STEP: usize = 2048;
/// The owner of everything that is not in the set.
const OUTSIDE: u32 = u32::MAX;

/// Sums over the files of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::usage) struct Sums {
    /// The extents, cut where sharing begins or ends.
    pub(in crate::usage) extents: u64,
    /// Those that are not shared.
    pub(in crate::usage) unshared_extents: u64,
    /// Bytes that no other extent refers to.
    pub(in crate::usage) unshared: u64,
    /// All other bytes, counted as often as files refer to them.
    pub(in crate::usage) shared: u64,
}

/// What the reverse map shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::usage) struct Owned {
    /// By group.
    pub(in crate::usage) groups: Vec<Sums>,
    /// The shared bytes of each path and, last, of the set: each block once.
    pub(in crate::usage) shared: Vec<u64>,
    /// Shared bytes that only files hold that go with the set, and the number of their ranges.
    pub(in crate::usage) leaving: u64,
    pub(in crate::usage) leaving_ranges: u64,
}

/// Reads the owners of all blocks. `paths` is the number of paths. `None` if that would take longer than mapping the
/// files one by one, or if the filesystem does not report the owners.
///
/// # Errors
/// If the run is cancelled.
pub(in crate::usage) fn read(
    volume: &Volume,
    files: &Files,
    paths: usize,
    monitor: &dyn Monitor,
) -> Result<Option<Owned>> {
    let most = files.count.saturating_mul(WORTH_A_FILE);
    let most = most.saturating_add(files.extents.saturating_mul(WORTH_AN_EXTENT));
    // Every inode has a record or more, except empty ones.
    let inodes = rustix::fs::fstatvfs(&volume.fd).map_or(u64::MAX, |space| space.f_files.saturating_sub(space.f_ffree));
    if inodes > most {
        return Ok(None);
    }
    let (Ok(geometry), Ok(status)) = (xfs::geometry(&volume.fd), rustix::fs::fstat(&volume.fd)) else {
        return Ok(None);
    };
    let device = getfsmap::device_code(status.st_dev);
    let size = u64::from(geometry.group_blocks) * u64::from(geometry.block_size);
    let seen = AtomicU64::new(0);
    let groups: Vec<u64> = (0..u64::from(geometry.groups)).collect();
    let parts = pool::try_map(groups, |group| {
        let mut pieces = Pieces::new(files, paths);
        let mut sweep = Sweep::new(&mut pieces);
        let records = getfsmap::many_records(&volume.fd, device, group * size..(group + 1) * size);
        for (number, record) in records.enumerate() {
            let record = record?;
            if number > 0 && number % STEP == 0 {
                if monitor.is_cancelled() {
                    return Err(Errno::INTR);
                }
                if seen.fetch_add(STEP as u64, Ordering::Relaxed) > most {
                    return Err(Errno::OVERFLOW);
                }
            }
            if let Some(interval) = owned(files, &record)? {
                sweep.begin(&interval);
            }
        }
        sweep.finish();
        Ok(pieces.owned)
    });
    if monitor.is_cancelled() {
        return Err(Error::interrupted());
    }
    Ok(parts.ok().map(|parts| parts.into_iter().fold(Owned::new(files, paths), Owned::and)))
}

/// The interval of a record of file data.
fn owned(files: &Files, record: &Record) -> rustix::io::Result<Option<Interval<By>>> {
    match record.owner {
        Owner::UNKNOWN => Err(Errno::NODATA),
        Owner::Inode(inode) if record.is_file_data() && record.length > 0 => {
            let by = By(files.group_of(inode).unwrap_or(OUTSIDE));
            Ok(Some(Interval::new(record.physical, record.length, by)))
        }
        _ => Ok(None),
    }
}

/// The group of an owner.
#[derive(Clone, Copy, Debug)]
struct By(u32);

impl Holder for By {
    type Length = u64;
    type Order = (u64, u32);

    fn order(&self, start: u64, _length: u64) -> (u64, u32) {
        (start, self.0)
    }
}

impl Owned {
    fn new(files: &Files, paths: usize) -> Owned {
        let (groups, shared) = (vec![Sums::default(); files.groups.len()], vec![0; paths + 1]);
        Owned { groups, shared, ..Owned::default() }
    }

    fn and(mut self, other: Owned) -> Owned {
        for (sum, other) in self.groups.iter_mut().zip(&other.groups) {
            sum.extents += other.extents;
            sum.unshared_extents += other.unshared_extents;
            sum.unshared += other.unshared;
            sum.shared += other.shared;
        }
        self.shared.iter_mut().zip(&other.shared).for_each(|(sum, other)| *sum += other);
        self.leaving += other.leaving;
        self.leaving_ranges += other.leaving_ranges;
        self
    }
}

/// The extents of a group that cover the present address.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    count: u64,
    /// Those that have just begun.
    new: u64,
}

/// Counts the pieces between two bounds of extents.
struct Pieces<'a> {
    files: &'a Files,
    /// By group.
    open: Vec<Open>,
    /// The groups with open extents.
    present: Vec<u32>,
    /// Open extents of all owners, and of files that go with the set.
    owners: u64,
    leaving: u64,
    /// The end of the last piece with an owner in the set, and whether it was shared.
    last: (u64, bool),
    /// The end of the last piece that goes with the set.
    last_leaving: u64,
    /// For each path: the number of the last piece that was counted, so that it counts once.
    counted: Vec<u64>,
    pieces: u64,
    owned: Owned,
}

impl<'a> Pieces<'a> {
    fn new(files: &'a Files, paths: usize) -> Self {
        Pieces {
            files,
            open: vec![Open::default(); files.groups.len()],
            present: Vec::new(),
            owners: 0,
            leaving: 0,
            last: (0, false),
            last_leaving: 0,
            counted: vec![0; paths],
            pieces: 0,
            owned: Owned::new(files, paths),
        }
    }

    fn share(&mut self, range: &Bytes) {
        let length = range.end - range.start;
        self.pieces += 1;
        for group in &self.present {
            for path in &self.files.groups[*group as usize].paths {
                if self.counted[*path] != self.pieces {
                    self.counted[*path] = self.pieces;
                    self.owned.shared[*path] += length;
                }
            }
        }
        if let Some(set) = self.owned.shared.last_mut() {
            *set += length;
        }
        if self.leaving == self.owners {
            self.owned.leaving += length;
            self.owned.leaving_ranges += u64::from(self.last_leaving != range.start);
            self.last_leaving = range.end;
        }
    }
}

impl Bounds for Pieces<'_> {
    type Holder = By;
    type Open = u32;

    fn begins(&mut self, interval: &Interval<By>) -> u32 {
        let By(group) = interval.by;
        self.owners += 1;
        if group != OUTSIDE {
            self.leaving += u64::from(self.files.groups[group as usize].leaves);
            let open = &mut self.open[group as usize];
            if open.count == 0 {
                self.present.push(group);
            }
            open.count += 1;
            open.new += 1;
        }
        group
    }

    fn covers(&mut self, range: Bytes) {
        if self.present.is_empty() {
            return;
        }
        let length = range.end - range.start;
        let is_shared = self.owners > 1;
        // Where sharing begins or ends within an extent, the kernel reports another one.
        let is_cut = self.last == (range.start, !is_shared);
        self.last = (range.end, is_shared);
        for group in &self.present {
            let (open, sums) = (&mut self.open[*group as usize], &mut self.owned.groups[*group as usize]);
            let begun = if is_cut { open.count } else { open.new };
            open.new = 0;
            sums.extents += begun;
            if is_shared {
                sums.shared += length * open.count;
            } else {
                sums.unshared += length;
                sums.unshared_extents += begun;
            }
        }
        if is_shared {
            self.share(&range);
        }
    }

    fn ends(&mut self, group: u32, _at: u64) {
        self.owners -= 1;
        if group != OUTSIDE {
            self.leaving -= u64::from(self.files.groups[group as usize].leaves);
            let open = &mut self.open[group as usize];
            open.count -= 1;
            if open.count == 0 {
                self.present.retain(|present| *present != group);
            }
        }
    }
}

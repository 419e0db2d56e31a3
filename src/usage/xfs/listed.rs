//! The status of inodes by their numbers (`BULKSTAT`): sums for each path and for the set, and which files have
//! extents. No file is opened.

use super::files::{Files, Group, Groups, Runs};
use crate::error::{Error, Result};
use crate::monitor::{Amount, Monitor};
use crate::sys::xfs;
use crate::usage::device::Volume;
use crate::usage::inodes::Inodes;
use crate::usage::part::Totals;
use crate::usage::runs::{self, Members};
use crate::util::pool;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::HashSet;
use std::ops::Range;

/// Inodes between two reports of progress.
const REPORT: u64 = 4096;

/// What the status of the inodes of a set shows.
#[derive(Debug, Default)]
pub(in crate::usage) struct Listed {
    /// The sums for each path and, last, for the set. All bytes count as exclusive, as long as nothing is known of
    /// sharing.
    pub(in crate::usage) totals: Vec<Totals>,
    /// The bytes of inodes that go with the set.
    pub(in crate::usage) leaving: u64,
    /// Inodes with names outside the set.
    pub(in crate::usage) staying: HashSet<u64>,
    /// The regular files with blocks.
    pub(in crate::usage) files: Files,
}

/// Reads the status of all inodes of `set`. `paths` has the inodes of each path; the set has all of them.
///
/// # Errors
/// `PERM` without root, or if the run is cancelled.
pub(in crate::usage) fn list(
    volume: &Volume,
    paths: &[Vec<Range<u64>>],
    set: &Inodes,
    monitor: &dyn Monitor,
) -> Result<Listed> {
    let failed = |errno: Errno| Error::io("list the inodes of the filesystem of", &volume.path, errno);
    let block = u64::from(xfs::geometry(&volume.fd).map_err(failed)?.block_size);
    let groups = Groups::default();
    let shares = runs::cut(&set.runs().collect::<Vec<_>>(), set.count());
    let parts = pool::try_map(&shares, |share| {
        let mut part = Part::new(paths, set, &groups, block);
        let mut seen = 0;
        xfs::inodes_in(&volume.fd, share, |inode| {
            part.add(inode);
            seen += 1;
            if seen % REPORT == 0 {
                monitor.advance(Amount { files: REPORT, bytes: 0 });
            }
            seen % REPORT != 0 || !monitor.is_cancelled()
        })
        .map_err(failed)?;
        monitor.advance(Amount { files: seen % REPORT, bytes: 0 });
        if monitor.is_cancelled() { Err(Error::interrupted()) } else { Ok((part.listed, part.runs)) }
    })?;
    let mut all = Listed { totals: vec![Totals::default(); paths.len() + 1], ..Listed::default() };
    let mut runs = Vec::with_capacity(parts.len());
    for (part, of_part) in parts {
        all.totals.iter_mut().zip(&part.totals).for_each(|(sum, totals)| sum.add(totals));
        all.leaving += part.leaving;
        all.staying.extend(part.staying);
        runs.push(of_part);
    }
    all.files = Files::new(runs, groups);
    Ok(all)
}

/// One thread's part of the inodes.
struct Part<'a> {
    members: Members<'a>,
    set: &'a Inodes,
    groups: &'a Groups,
    block: u64,
    /// The numbers of the groups of the present paths: of files that stay, and of files that leave.
    present: [Option<u32>; 2],
    listed: Listed,
    runs: Runs,
}

impl<'a> Part<'a> {
    fn new(paths: &'a [Vec<Range<u64>>], set: &'a Inodes, groups: &'a Groups, block: u64) -> Self {
        let listed = Listed { totals: vec![Totals::default(); paths.len() + 1], ..Listed::default() };
        Part { members: Members::new(paths), set, groups, block, present: [None; 2], listed, runs: Runs::default() }
    }

    fn add(&mut self, inode: &xfs::Inode) {
        if self.members.reach(inode.number) {
            self.present = [None; 2];
        }
        let kind = FileType::from_raw_mode(inode.mode);
        let is_file = kind == FileType::RegularFile;
        let disk = inode.blocks.saturating_mul(self.block);
        let set = self.listed.totals.len() - 1;
        for part in self.members.lists().iter().copied().chain([set]) {
            let totals = &mut self.listed.totals[part];
            totals.files += u64::from(is_file);
            totals.apparent_bytes = totals.apparent_bytes.saturating_add(if is_file { inode.size() } else { 0 });
            totals.disk_bytes = totals.disk_bytes.saturating_add(disk);
            totals.exclusive_bytes = totals.exclusive_bytes.saturating_add(disk);
        }
        // A directory has one name, whatever its link count is.
        let has_one_name = kind == FileType::Directory || inode.names <= 1;
        let leaves = has_one_name || self.set.names(inode.number) >= u64::from(inode.names);
        if leaves {
            self.listed.leaving = self.listed.leaving.saturating_add(disk);
        } else {
            self.listed.staying.insert(inode.number);
        }
        if is_file && inode.blocks > 0 {
            let (groups, paths) = (self.groups, self.members.lists());
            let number = || groups.number(Group { paths: paths.to_vec(), leaves });
            let group = *self.present[usize::from(leaves)].get_or_insert_with(number);
            self.runs.add(inode.number, group, inode.extents());
        }
    }
}

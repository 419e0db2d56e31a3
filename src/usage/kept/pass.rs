//! A pass over all inodes of an XFS, in the order of their numbers: to which tree each belongs, and the extents of the
//! wanted ones.

use super::types::Run;
use crate::error::{Error, Result};
use crate::monitor::{Amount, Monitor};
use crate::sys::xfs;
use crate::usage::xfs::extents::{BATCH, Extents, extents};
use crate::util::pool::{self, Pool};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// Adds everything to a digest that shows a change of an inode.
pub(super) fn note(digest: &mut blake3::Hasher, inode: &xfs::Inode) {
    let xfs::Inode { number, generation, names, mode, blocks, state, .. } = inode;
    let fields = [*number, u64::from(*generation), u64::from(*names), u64::from(*mode), *blocks];
    fields.iter().chain(state).for_each(|field| {
        digest.update(&field.to_le_bytes());
    });
}

pub(super) fn is_mappable(inode: &xfs::Inode) -> bool {
    FileType::from_raw_mode(inode.mode) == FileType::RegularFile && inode.blocks > 0 && !inode.realtime
}

/// Which tree has an inode, for inodes in ascending order.
pub(super) struct Owners {
    /// The runs of all trees, and the number of the tree.
    runs: Vec<(Run, usize)>,
    next: usize,
    /// Trees with inodes that another tree has too.
    pub(super) common: Vec<usize>,
}

impl Owners {
    pub(super) fn new<I: Iterator<Item = Run>>(trees: impl Iterator<Item = I>) -> Owners {
        let mut runs: Vec<(Run, usize)> =
            trees.enumerate().flat_map(|(tree, runs)| runs.map(move |run| (run, tree))).collect();
        runs.sort_unstable_by_key(|(run, _)| run.start);
        let mut common = Vec::new();
        let mut last: Option<(u64, usize)> = None;
        for (run, tree) in &runs {
            if let Some((end, other)) = last
                && end > run.start
            {
                common.extend([other, *tree]);
            }
            if last.is_none_or(|(end, _)| end < run.end) {
                last = Some((run.end, *tree));
            }
        }
        Owners { runs, next: 0, common }
    }

    pub(super) fn of(&mut self, inode: u64) -> Option<usize> {
        while self.runs.get(self.next).is_some_and(|(run, _)| run.end <= inode) {
            self.next += 1;
        }
        self.runs.get(self.next).filter(|(run, _)| run.start <= inode).map(|(_, tree)| *tree)
    }

    /// The same, for inodes in any order.
    pub(super) fn find(&self, inode: u64) -> Option<usize> {
        let at = self.runs.partition_point(|(run, _)| run.end <= inode);
        self.runs.get(at).filter(|(run, _)| run.start <= inode).map(|(_, tree)| *tree)
    }
}

/// A pass over all inodes of the filesystem.
pub(super) struct Pass<'a> {
    pub(super) fd: BorrowedFd<'a>,
    pub(super) path: &'a Path,
    pub(super) threads: usize,
    pub(super) monitor: &'a dyn Monitor,
}

impl Pass<'_> {
    /// Passes each inode to `is_wanted`, and the extents of the wanted ones to `each`. Returns how many these were.
    pub(super) fn run<J: Send + Sync + Copy>(
        &self,
        mut is_wanted: impl FnMut(&xfs::Inode) -> Option<J>,
        mut each: impl FnMut(J, &xfs::Inode, Extents),
    ) -> Result<u64> {
        let Pass { fd, path, threads, monitor } = *self;
        let pool = Pool::start(threads).map_err(|_| Error::failed("start the threads that measure"))?;
        let failed = |errno: Errno| Error::io("list the inodes of the filesystem of", path, errno);
        let mut inodes = xfs::inodes(fd);
        let mut mapped = 0;
        loop {
            let (mut batch, mut is_over) = (Vec::new(), true);
            for (seen, inode) in inodes.by_ref().enumerate() {
                let inode = inode.map_err(failed)?;
                batch.extend(is_wanted(&inode).map(|job| (job, inode)));
                if batch.len() >= BATCH || seen >= 64 * BATCH {
                    is_over = false;
                    break;
                }
            }
            let found = pool.install(|| {
                pool::try_map(&batch, |(_, inode)| match extents(fd, inode) {
                    // Deleted since: it holds nothing any more.
                    Err(Errno::STALE | Errno::NOENT) => Ok(Extents::new()),
                    found => found,
                })
            });
            let found = found.map_err(|errno| Error::io("map files on the filesystem of", path, errno))?;
            mapped += batch.len() as u64;
            monitor.advance(Amount { files: batch.len() as u64, bytes: 0 });
            batch.iter().zip(found).for_each(|((job, inode), found)| each(*job, inode, found));
            if monitor.is_cancelled() {
                return Err(Error::interrupted());
            }
            if is_over {
                return Ok(mapped);
            }
        }
    }
}

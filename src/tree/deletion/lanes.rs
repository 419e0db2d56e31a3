//! Distributes directories to threads so that they rarely wait for each other.
//!
//! XFS consists of allocation groups. A change of inodes or of free space locks its group, and the kernel frees a
//! deleted inode some time later, on the processor that deleted it. So on XFS each thread gets the directories of
//! certain groups, and stays on one processor. Freeing a file also changes the groups of its data: a snapshot shares it
//! with the source, so it is often in another group than the inode. So each thread begins with the directories that
//! have their data in its own groups, then takes those with data in the next thread's groups, and so on: in step, they
//! keep out of each other's way.

use super::directory::Directory;
use super::entry::{is_dot, open};
use crate::fs::openat;
use crate::sys::xfs::{Geometry, geometry};
use crate::util::pool::{self, Pool};
use rustix::fs::{self, FileType, OFlags};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// If each lane has only this many directories, a look at their data is not worth it.
const FEW: usize = 16;

/// How directories are distributed.
#[derive(Debug)]
pub(super) struct Lanes {
    /// The number of lanes, at least 1.
    number: u32,
    /// `None`: not XFS.
    geometry: Option<Geometry>,
}

impl Lanes {
    /// Lanes for at most this many threads, on the filesystem of `dir`.
    pub(super) fn new(dir: BorrowedFd<'_>, threads: usize) -> Lanes {
        let threads = u32::try_from(threads).unwrap_or(u32::MAX).max(1);
        match geometry(dir) {
            Ok(geometry) => Lanes { number: threads.min(geometry.groups.max(1)), geometry: Some(geometry) },
            Err(_) => Lanes { number: threads, geometry: None },
        }
    }

    /// Threads for the lanes.
    pub(super) fn pool(&self) -> io::Result<Pool> {
        match self.geometry {
            Some(_) => Pool::start_with(self.number as usize, stay_on_a_processor),
            None => Pool::start(self.number as usize),
        }
    }

    /// Distributes directories: one thread empties the directories of one lane, in their order.
    pub(super) fn distribute<'a>(&self, mut dirs: Vec<Arc<Directory<'a>>>) -> Vec<Vec<Arc<Directory<'a>>>> {
        let Some(geometry) = self.geometry.filter(|_| self.number > 1) else {
            dirs.sort_unstable_by_key(|dir| dir.inode);
            // Neighbouring inodes, in parts small enough for threads that finish early.
            return chunks(dirs, self.number as usize * 8);
        };
        let is_worth_a_look = dirs.len() > FEW * self.number as usize;
        let mut dirs = pool::map(dirs, |dir| {
            let lane = self.lane(geometry.group_of(dir.inode), &geometry);
            let data = if is_worth_a_look { first_data(&dir) } else { None };
            let data = data.map(|address| geometry.group_of_address(address));
            let step = data.map_or(0, |group| (self.lane(group, &geometry) + self.number - lane) % self.number);
            ((lane, step, data, dir.inode), dir)
        });
        dirs.sort_unstable_by_key(|(key, _)| *key);
        let mut lanes = vec![Vec::new(); self.number as usize];
        dirs.into_iter().for_each(|((lane, ..), dir)| lanes[lane as usize].push(dir));
        lanes
    }

    /// The lane of an allocation group.
    fn lane(&self, group: u64, geometry: &Geometry) -> u32 {
        let groups = u64::from(geometry.groups.max(1));
        let lane = group.min(groups - 1) * u64::from(self.number) / groups;
        u32::try_from(lane).unwrap_or(u32::MAX)
    }
}

/// At most `number` parts of about the same size.
fn chunks<T>(items: Vec<T>, number: usize) -> Vec<Vec<T>> {
    let size = items.len().div_ceil(number).max(1);
    let mut chunks = Vec::new();
    let mut items = items.into_iter().peekable();
    while items.peek().is_some() {
        chunks.push(items.by_ref().take(size).collect());
    }
    chunks
}

/// Where the data of a directory probably is: the address of the first extent of its first file.
fn first_data(dir: &Directory<'_>) -> Option<u64> {
    let fd = open(dir.above(), &dir.name, OFlags::RDONLY).ok()?;
    for entry in fs::Dir::read_from(&fd).ok()? {
        let entry = entry.ok()?;
        if !is_dot(entry.file_name()) && entry.file_type() == FileType::RegularFile {
            let file = openat::open_file(fd.as_fd(), entry.file_name().to_bytes()).ok()?;
            return crate::sys::fiemap::first_extent(&file).ok()?.and_then(|extent| extent.physical);
        }
    }
    None
}

/// Keeps a thread of the pool on one of the processors that this process may use.
fn stay_on_a_processor(thread: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&number| allowed.is_set(number)).collect();
    if let Some(&processor) = processors.get(thread % processors.len().max(1)) {
        let mut one = CpuSet::new();
        one.set(processor);
        // Without it, the threads only wait for each other more often.
        let _ = sched_setaffinity(None, &one);
    }
}

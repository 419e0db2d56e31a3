//! The states of all inodes of an XFS, as digests of groups of inodes with neighbouring numbers. Two such lists show
//! which groups changed. Only for root.
//!
//! XFS lists its inodes in the order of their numbers, which is their order on the disk. So this takes a fraction of
//! the time that the status of each name takes. A digest covers whatever shows a change of content, metadata or names,
//! and the generation of the inode. It does not depend on the order of times, so no clock can hide a change.

use crate::fs::status::Time;
use crate::sys::xfs::{self, Inode};
use crate::util::parallel;
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::iter::Peekable;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many numbers a group has. In smaller groups, fewer unchanged inodes are candidates after scattered changes, and
/// the list is longer.
const GROUP: u64 = 16;

/// The digests of all groups that have inodes, in the order of their numbers: 16 bytes each, number and digest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Digests<'b>(&'b [[[u8; 8]; 2]]);

/// The state of an inode, as far as a record of it has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) mode: u32,
    pub(crate) nlink: u64,
    pub(crate) size: u64,
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
}

/// What a look at all inodes found.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// [`Digests`] as bytes: one byte for each inode, if the groups are full.
    pub(crate) digests: Vec<u8>,
    /// The inodes in groups that differ from those of an earlier sweep. `None`: too many, or there was none.
    /// Memory: about 80 bytes for each.
    pub(crate) candidates: Option<HashMap<u64, State>>,
}

/// Looks at all inodes of the filesystem of `fd`, with this many threads. `then`: the digests of an earlier sweep, and
/// how many inodes in other groups are too many. `go_on` is asked now and then.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`; `NOTTY` on other filesystems; `CANCELED` if `go_on` returned false.
pub(crate) fn sweep(
    fd: BorrowedFd<'_>,
    then: Option<(Digests<'_>, usize)>,
    threads: usize,
    go_on: impl Fn() -> bool + Sync,
) -> Result<Sweep> {
    let geometry = xfs::geometry(fd)?;
    let (earlier, most) = then.unwrap_or((Digests(&[]), 0));
    let found = AtomicUsize::new(0);
    let nothing = || Sweep { digests: Vec::new(), candidates: then.map(|_| HashMap::new()) };
    // Threads in different allocation groups do not wait for each other's locks.
    let ranges = (0..geometry.groups).map(|group| geometry.inodes_of(group)).collect();
    let parts = parallel::each(threads, ranges, |range: Range<u64>| {
        let earlier = earlier.from(range.start).peekable();
        let mut part = Part { earlier, sweep: nothing(), found: &found, most };
        part.run(xfs::inodes_from(fd, range.start), range.end, &go_on).map(|()| part.sweep)
    });
    let mut whole = nothing();
    for part in parts {
        let part = part?;
        whole.digests.extend(part.digests);
        whole.candidates = whole.candidates.zip(part.candidates).map(|(mut all, more)| {
            all.extend(more);
            all
        });
    }
    Ok(whole)
}

/// One thread's part of the inodes.
struct Part<'a, I: Iterator> {
    /// The earlier digests from its first group on.
    earlier: Peekable<I>,
    sweep: Sweep,
    /// How many candidates all threads have.
    found: &'a AtomicUsize,
    most: usize,
}

impl<I: Iterator<Item = (u64, [u8; 8])>> Part<'_, I> {
    /// Looks at inodes up to the number `end`.
    fn run(&mut self, inodes: impl Iterator<Item = Result<Inode>>, end: u64, go_on: &impl Fn() -> bool) -> Result<()> {
        let mut group: Vec<Inode> = Vec::with_capacity(GROUP as usize);
        for (count, inode) in inodes.enumerate() {
            let inode = inode?;
            if inode.number >= end {
                break;
            }
            if group.first().is_some_and(|first| first.number / GROUP != inode.number / GROUP) {
                self.end(&group);
                group.clear();
            }
            group.push(inode);
            if count % 4096 == 0 && !go_on() {
                return Err(Errno::CANCELED);
            }
        }
        self.end(&group);
        Ok(())
    }

    /// Adds a group.
    fn end(&mut self, group: &[Inode]) {
        let Some(number) = group.first().map(|inode| inode.number / GROUP) else { return };
        let digest = digest(group);
        self.sweep.digests.extend(number.to_le_bytes());
        self.sweep.digests.extend(digest);
        while self.earlier.next_if(|(other, _)| *other < number).is_some() {}
        if self.earlier.next_if(|(other, _)| *other == number).is_some_and(|(_, other)| other == digest) {
            return;
        }
        if let Some(candidates) = &mut self.sweep.candidates {
            candidates.extend(group.iter().map(|inode| (inode.number, State::of(inode))));
            if self.found.fetch_add(group.len(), Ordering::Relaxed) + group.len() > self.most {
                self.sweep.candidates = None;
            }
        }
    }
}

impl<'b> Digests<'b> {
    /// The digests of an earlier sweep, from their bytes.
    pub(crate) fn of(bytes: &'b [u8]) -> Self {
        Digests(bytes.as_chunks::<8>().0.as_chunks::<2>().0)
    }

    /// Group and digest, from the group of this inode on.
    fn from(self, inode: u64) -> impl Iterator<Item = (u64, [u8; 8])> + use<'b> {
        let number = |[number, _]: &[[u8; 8]; 2]| u64::from_le_bytes(*number);
        let first = self.0.partition_point(|group| number(group) < inode / GROUP);
        self.0[first..].iter().map(move |group| (number(group), group[1]))
    }
}

impl State {
    fn of(inode: &Inode) -> State {
        let time = |(seconds, nanos)| Time { seconds, nanos };
        State {
            mode: inode.mode,
            nlink: inode.names.into(),
            size: inode.size(),
            mtime: time(inode.mtime()),
            ctime: time(inode.ctime()),
        }
    }
}

/// A digest of the states of inodes. Nobody can choose it: each try to change one sets a new ctime.
fn digest(group: &[Inode]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    for inode in group {
        let State { mode, nlink, size, mtime, ctime } = State::of(inode);
        let times = [mtime, ctime].map(|time| [time.seconds.cast_unsigned(), time.nanos.into()]);
        let numbers = [inode.number, inode.generation.into(), mode.into(), nlink, size];
        numbers.iter().chain(times.as_flattened()).for_each(|number| _ = hasher.update(&number.to_le_bytes()));
    }
    let mut digest = [0; 8];
    hasher.finalize_xof().fill(&mut digest);
    digest
}

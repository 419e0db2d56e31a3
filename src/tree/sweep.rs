//! The states of all inodes of an XFS, as digests of groups of inodes with neighbouring numbers. Two such lists show
//! which groups changed. Only for root.
//!
//! XFS lists its inodes in the order of their numbers, which is their order on the disk. So this takes a fraction of
//! the time that the status of each name takes. A digest covers whatever shows a change of content, metadata or names,
//! and the generation of the inode. It does not depend on the order of times, so no clock can hide a change.

use crate::fs::status::Time;
use crate::sys::xfs::{self, Inode};
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::os::fd::AsFd;

/// How many numbers a group has. With less, fewer unchanged inodes are candidates after scattered changes, and the list
/// is longer.
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

/// Looks at all inodes of the filesystem of `fd`. `then`: the digests of an earlier sweep, and how many inodes in other
/// groups are too many. `go_on` is asked now and then.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`; `NOTTY` on other filesystems; `CANCELED` if `go_on` returned false.
pub(crate) fn sweep(fd: impl AsFd, then: Option<(Digests<'_>, usize)>, go_on: impl Fn() -> bool) -> Result<Sweep> {
    let mut sweep = Sweep { digests: Vec::new(), candidates: then.map(|_| HashMap::new()) };
    let (Digests(earlier), most) = then.unwrap_or((Digests(&[]), 0));
    let mut earlier = earlier.iter().map(|[number, digest]| (u64::from_le_bytes(*number), *digest)).peekable();
    let mut group: Vec<Inode> = Vec::with_capacity(GROUP as usize);
    let mut end = |sweep: &mut Sweep, group: &mut Vec<Inode>| {
        let Some(number) = group.first().map(|inode| inode.number / GROUP) else { return };
        let digest = digest(group);
        sweep.digests.extend(number.to_le_bytes());
        sweep.digests.extend(digest);
        while earlier.next_if(|(other, _)| *other < number).is_some() {}
        let is_same = earlier.next_if(|(other, _)| *other == number).is_some_and(|(_, other)| other == digest);
        if let Some(candidates) = sweep.candidates.as_mut().filter(|_| !is_same) {
            candidates.extend(group.iter().map(|inode| (inode.number, State::of(inode))));
            if candidates.len() > most {
                sweep.candidates = None;
            }
        }
        group.clear();
    };
    for (count, inode) in xfs::inodes(fd).enumerate() {
        let inode = inode?;
        if group.first().is_some_and(|first| first.number / GROUP != inode.number / GROUP) {
            end(&mut sweep, &mut group);
        }
        group.push(inode);
        if count % 4096 == 0 && !go_on() {
            return Err(Errno::CANCELED);
        }
    }
    end(&mut sweep, &mut group);
    Ok(sweep)
}

impl<'b> Digests<'b> {
    /// The digests of an earlier sweep, from their bytes.
    pub(crate) fn of(bytes: &'b [u8]) -> Self {
        Digests(bytes.as_chunks::<8>().0.as_chunks::<2>().0)
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

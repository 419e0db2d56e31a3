//! The number of files that this process may have open, and the parts of it that its components may use.
//!
//! Each caller bounds itself. Nobody counts the open files of all.

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::ops::RangeInclusive;

/// Whether an error means that this process or the system can open nothing more at the moment. Every further entry
/// would fail too, so a run that continued would leave most of them out.
pub(crate) fn is_exhausted(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}

/// A part of the limit on open files (`RLIMIT_NOFILE`): the limit divided by `divisor`, within `bounds`.
///
/// Several callers are at work in one run. These parts must leave some descriptors for everything else:
///
/// | divisor | caller | for |
/// |---|---|---|
/// | 4 | `snapshot::find`, which runs alone | manifests |
/// | 4 | `tree::deletion` | the directories in which subdirectories wait |
/// | 4 | `snapshot::send` | the entries that are read together |
/// | 4 | `copy_tree` | the small files of all threads: two descriptors each |
/// | 8 | `tree::writer::AfterSync` | jobs that wait for a sync, and as many in the current round: one or two each |
/// | 8, 8, 16 | `snapshot::verify`, which runs alone | the directories of a batch, of all snapshots, on the way |
/// | 64 | `snapshot::verify` | the versions of one path, in each of 16 threads |
/// | 8 | `snapshot::verify` | the files that wait to be read |
/// | 10 | `snapshot::restore`, twice | the directories of the current path, and those of the current batch |
/// | 12 | `tree::walk` | directories in progress: two or three each |
/// | 16 | `snapshot::receive` | the directories of the current path |
/// | 32 | `fs::reopener`, up to three in a restore | directories on the way to others |
/// | 64 | `snapshot::create`, `copy_tree` | the small files of one thread |
pub(crate) fn part(divisor: u64, bounds: RangeInclusive<usize>) -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / divisor).unwrap_or(usize::MAX).clamp(*bounds.start(), *bounds.end())
}

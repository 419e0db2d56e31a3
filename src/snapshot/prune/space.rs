//! Counts the space that a removal frees, by the free space before and after.
//!
//! Filesystems free space after a deletion has returned: XFS in the background, Btrfs by a thread that walks the trees
//! of deleted subvolumes. So counting waits until that is done.

use super::stats::{Counted, Freed};
use crate::monitor::Monitor;
use crate::snapshot::repository::{self, Repository};
use crate::sys::btrfs::subvolume;
use crate::sys::btrfs::tree::{self, Key, ORPHAN_ITEM, ORPHANS, ROOT_ITEM, ROOT_TREE, Step};
use crate::usage::Bound;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// The used space is final when it has not shrunk for this many looks. Others may write meanwhile.
const STILL: u32 = 10;
/// If nothing was freed for this long, a subvolume is held open and will be freed later.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(600);

/// The space before a removal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter {
    used: Option<u64>,
    /// Whether everything that was removed since is freed.
    is_settled: bool,
}

impl Meter {
    /// Notes the space in use.
    pub(super) fn begin(repository: &Repository) -> Meter {
        let _ = repository.sync();
        Meter { used: used(repository), is_settled: true }
    }

    /// Waits until the space of removed snapshots is free.
    pub(super) fn settle(&mut self, repository: &Repository, subvolumes: &[u64], monitor: &dyn Monitor) {
        let _ = repository.sync();
        let mut rest: Vec<u64> = subvolumes.to_vec();
        if !rest.is_empty() {
            let _ = subvolume::sync(repository.fd());
        }
        let (begun, mut changed, mut looks) = (Instant::now(), Instant::now(), 0);
        let mut last = (used(repository), rest.len());
        while looks < STILL {
            sleep(PAUSE);
            let before = rest.len();
            rest.retain(|number| exists(repository, *number));
            if rest.len() < before && rest.is_empty() {
                // Its blocks are free after one more transaction.
                let _ = subvolume::sync(repository.fd());
            }
            let now = (used(repository), rest.len());
            if now.0 < last.0 || now.1 < last.1 {
                (last, changed, looks) = ((now.0.min(last.0), now.1), Instant::now(), 0);
            } else if rest.is_empty() {
                looks += 1;
            }
            if changed.elapsed() > PATIENCE || begun.elapsed() > LONGEST || monitor.is_cancelled() {
                self.is_settled = false;
                return;
            }
        }
    }

    /// Commits the removal, without the wait for its space.
    pub(super) fn hurry(&mut self, repository: &Repository) {
        let _ = repository.sync();
        self.is_settled = false;
    }

    /// Whether everything that was removed is freed.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// The space that was freed.
    pub(super) fn freed(&self, repository: &Repository) -> Freed {
        match (self.used, used(repository)) {
            (Some(before), Some(after)) => {
                let bound = if self.is_settled { Bound::About } else { Bound::AtLeast };
                Freed { bytes: before.saturating_sub(after), metadata_bytes: 0, bound, counted: Counted::FreeSpace }
            }
            _ => Freed { bytes: 0, metadata_bytes: 0, bound: Bound::AtLeast, counted: Counted::FreeSpace },
        }
    }
}

/// Waits on Btrfs, as root, until the space of subvolumes that were deleted before is free. Each snapshot deletes one,
/// and the kernel frees its space later. It must not count as freed by the next removal.
pub(super) fn wait_for_earlier(repository: &Repository, monitor: &dyn Monitor) {
    let begun = Instant::now();
    let mut has_waited = false;
    while has_deleted(repository) && begun.elapsed() < PATIENCE && !monitor.is_cancelled() {
        let _ = subvolume::sync(repository.fd());
        has_waited = true;
        sleep(PAUSE);
    }
    if has_waited {
        let _ = subvolume::sync(repository.fd());
    }
}

/// Whether the space of a deleted subvolume is not free yet. Only root can find out.
fn has_deleted(repository: &Repository) -> bool {
    let mut found = false;
    let (from, to) = (Key::new(ORPHANS, ORPHAN_ITEM, 0), Key::new(ORPHANS, ORPHAN_ITEM, u64::MAX));
    let searched = tree::search(repository.fd(), ROOT_TREE, from, to, |item| {
        found = item.key.objectid == ORPHANS && item.key.kind == ORPHAN_ITEM;
        Step::Stop
    });
    searched.is_ok() && found
}

fn used(repository: &Repository) -> Option<u64> {
    repository::space(repository.fd()).map(|space| space.used)
}

/// Whether a subvolume still exists. Only root can find out; for others the free space decides.
fn exists(repository: &Repository, number: u64) -> bool {
    let mut found = false;
    let (from, to) = (Key::new(number, ROOT_ITEM, 0), Key::new(number, ROOT_ITEM, u64::MAX));
    let searched = tree::search(repository.fd(), ROOT_TREE, from, to, |_| {
        found = true;
        Step::Stop
    });
    searched.is_ok() && found
}

//! Counts the space that a removal frees, by the free space before and after.
//!
//! Filesystems free space after a deletion has returned: XFS in the background, Btrfs by a thread that walks the trees
//! of deleted subvolumes. So counting waits until that is done.

use super::stats::{Counted, Freed};
use crate::fs::filesystem::Kind;
use crate::fs::held_open::HeldOpen;
use crate::monitor::Monitor;
use crate::snapshot::repository::{self, Repository};
use crate::sys::btrfs::subvolume;
use crate::sys::btrfs::tree::{self, Key, ORPHAN_ITEM, ORPHANS, ROOT_ITEM, ROOT_TREE, Step};
use crate::sys::xfs;
use crate::usage::Bound;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// The used space is final when it has not shrunk for this many looks. Others may write meanwhile.
const STILL: u32 = 10;
/// The same if the kernel does not say whether it is still freeing space.
const STILL_IN_DOUBT: u32 = 100;
/// If nothing was freed for this long, a subvolume is held open and will be freed later.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(600);

/// The space before a removal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter {
    used: Option<u64>,
    /// Whether to wait until the space is free.
    waits: bool,
    /// Whether everything that was removed since is freed.
    is_settled: bool,
}

impl Meter {
    /// Notes the space in use. If it `waits`, the space of earlier deletions is free before.
    pub(super) fn begin(repository: &Repository, waits: bool, monitor: &dyn Monitor) -> Meter {
        if waits {
            wait_for_earlier(repository, monitor);
        }
        let _ = repository.sync();
        Meter { used: used(repository), waits, is_settled: waits }
    }

    /// Commits a removal, and waits until the space of the removed snapshots is free.
    pub(super) fn settle(&mut self, repository: &Repository, subvolumes: &[u64], monitor: &dyn Monitor) {
        let _ = repository.sync();
        if !self.waits {
            return;
        }
        let still = if free_now(repository).is_ok() { STILL } else { STILL_IN_DOUBT };
        let mut rest: Vec<u64> = subvolumes.to_vec();
        if !rest.is_empty() {
            let _ = subvolume::sync(repository.fd());
        }
        let (begun, mut changed, mut looks) = (Instant::now(), Instant::now(), 0);
        let mut last = (used(repository), rest.len());
        while looks < still {
            sleep(PAUSE);
            let before = rest.len();
            rest.retain(|number| has_item(repository, *number, ROOT_ITEM));
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

    /// Whether everything that was removed is freed.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Notes that more space will be free later.
    pub(super) fn expect_more(&mut self) {
        self.is_settled = false;
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

/// Waits on XFS and Btrfs, as root, until the space of files and subvolumes that were deleted before is free. Each
/// snapshot on Btrfs deletes a subvolume, and the kernel frees its space later. It must not count as freed by the next
/// removal.
pub(super) fn wait_for_earlier(repository: &Repository, monitor: &dyn Monitor) {
    let _ = free_now(repository);
    let (begun, mut changed, mut least) = (Instant::now(), Instant::now(), None);
    let mut has_waited = false;
    while has_item(repository, ORPHANS, ORPHAN_ITEM)
        && changed.elapsed() < PATIENCE
        && begun.elapsed() < LONGEST
        && !monitor.is_cancelled()
    {
        let _ = subvolume::sync(repository.fd());
        has_waited = true;
        let now = used(repository);
        if least.is_none_or(|least| now < least) {
            (least, changed) = (Some(now), Instant::now());
        }
        sleep(PAUSE);
    }
    if has_waited {
        let _ = subvolume::sync(repository.fd());
    }
}

/// Lets XFS free deleted files. On Btrfs, `has_item` shows whether it has.
///
/// # Errors
/// If the kernel frees space in the background, and this process may not find out whether it is done.
fn free_now(repository: &Repository) -> rustix::io::Result<()> {
    match Kind::of(repository.fd()) {
        Ok(Kind::Xfs) => xfs::free_deleted(repository.fd()),
        Ok(Kind::Btrfs) => find_item(repository, ORPHANS, ORPHAN_ITEM).map(drop),
        _ => Ok(()),
    }
}

/// The deleted files on the repository's filesystem that other processes hold open, and those from its trash that loop
/// devices do. On Btrfs a subvolume is a filesystem for this: the [`Meter`] notices those.
pub(super) fn held_open(repository: &Repository) -> HeldOpen {
    let device = rustix::fs::fstat(repository.fd()).map_or(0, |stat| stat.st_dev);
    let trash = repository::trash_in_paths();
    HeldOpen::find(device, |path| path.windows(trash.len()).any(|part| part == trash.as_bytes()))
}

fn used(repository: &Repository) -> Option<u64> {
    repository::space(repository.fd()).map(|space| space.used)
}

/// Whether Btrfs's tree of trees has an item of this type: a subvolume has one as long as it exists, and a deleted one
/// has one until its space is free. Only root can find out; for others the free space decides.
fn has_item(repository: &Repository, object: u64, kind: u8) -> bool {
    find_item(repository, object, kind).unwrap_or(false)
}

fn find_item(repository: &Repository, object: u64, kind: u8) -> rustix::io::Result<bool> {
    let mut found = false;
    let (from, to) = (Key::new(object, kind, 0), Key::new(object, kind, u64::MAX));
    tree::search(repository.fd(), ROOT_TREE, from, to, |_| {
        found = true;
        Step::Stop
    })?;
    Ok(found)
}

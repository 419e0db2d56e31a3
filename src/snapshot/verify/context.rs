//! What all parts of a run share: the snapshots with their counts, and how findings are reported.

use super::findings::Findings;
use super::options::Options;
use super::part::Part;
use super::results::Results;
use crate::error::{Error, Result};
use crate::extents::address_space::NearSpace;
use crate::fs::data_loss::is_data_loss;
use crate::fs::stored_time::TimeStore;
use crate::monitor::{Damage, Event, Fault, Monitor};
use crate::snapshot::manifest::Reader;
use crate::snapshot::repository::Repository;
use crate::tree::walk::absolute;
use crate::util::mutex::lock;
use crate::util::semaphore::Semaphore;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How many missing entries of a snapshot are held back, because somebody may be deleting the snapshot.
const HELD: usize = 16 << 10;

/// A snapshot that is verified.
pub(super) struct Snapshot {
    pub(super) name: String,
    pub(super) manifest: Reader,
    pub(super) tree: OwnedFd,
    /// The address space of its files.
    pub(super) space: NearSpace,
    /// How its filesystem stores times.
    pub(super) times: TimeStore,
    pub(super) counts: Counts,
    is_deleted: AtomicBool,
    /// Its missing entries that were not reported yet.
    held: Mutex<Vec<PathBuf>>,
}

/// The sums over a snapshot.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) files: Count,
    pub(super) unhashed_files: Count,
    pub(super) checked_files: Count,
    pub(super) checked_bytes: Count,
    pub(super) damaged: Count,
    pub(super) unshared_bytes: Count,
}

/// A number that many threads add to.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A run.
pub(super) struct Context<'a> {
    pub(super) repository: &'a Repository,
    pub(super) options: &'a Options,
    pub(super) monitor: &'a dyn Monitor,
    pub(super) snapshots: &'a [Snapshot],
    /// The content that is read; `None`: all.
    pub(super) part: Option<Part>,
    pub(super) results: &'a Results,
    /// Turns of finding the data of small files: XFS looks up each extent in the reference counts, under one lock for
    /// each allocation group, and threads that wait for it cost more than the call.
    pub(super) maps: Semaphore,
    pub(super) read_bytes: &'a Count,
    pub(super) errors: &'a Count,
    /// The damage that must be repaired.
    pub(super) findings: Option<&'a Findings>,
}

impl Snapshot {
    pub(super) fn new(name: String, manifest: Reader, tree: OwnedFd) -> Snapshot {
        let times = TimeStore::of(&tree);
        let (counts, is_deleted, held) = (Counts::default(), AtomicBool::new(false), Mutex::default());
        let space = NearSpace::of(&tree);
        Snapshot { name, manifest, tree, space, times, counts, is_deleted, held }
    }

    /// Whether it was found to be deleted.
    pub(super) fn is_deleted(&self) -> bool {
        self.is_deleted.load(Ordering::Relaxed)
    }
}

impl Context<'_> {
    /// Ends the run if it should stop.
    pub(super) fn check(&self) -> Result<()> {
        if self.monitor.is_cancelled() { Err(Error::interrupted()) } else { Ok(()) }
    }

    /// Reports damage of an entry. The path is that of the manifest, without the leading slash.
    pub(super) fn damage(&self, snapshot: usize, path: &[u8], offset: Option<u64>, why: Fault) {
        let snapshot = &self.snapshots[snapshot];
        let path = absolute(path);
        self.monitor.damage(&Damage { offset, ..Damage::new(&snapshot.name, &path, why) });
        snapshot.counts.damaged.add(1);
        self.findings.inspect(|findings| findings.add(&snapshot.name, &path, why));
    }

    /// Reports that the tree lacks an entry, unless somebody deletes the snapshot.
    pub(super) fn missing(&self, number: usize, path: &[u8]) {
        let snapshot = &self.snapshots[number];
        if snapshot.is_deleted() {
            return;
        }
        let is_full = {
            let mut held = lock(&snapshot.held);
            held.push(absolute(path));
            held.len() == 1 || held.len() >= HELD
        };
        if is_full {
            self.look(number);
        }
        if lock(&snapshot.held).len() >= HELD {
            self.report_missing(number);
        }
    }

    /// Looks whether a snapshot was deleted. If so, its missing entries are not damage.
    fn look(&self, number: usize) {
        let snapshot = &self.snapshots[number];
        if !self.repository.has_tree(&snapshot.name, &snapshot.tree) {
            lock(&snapshot.held).clear();
            if !snapshot.is_deleted.swap(true, Ordering::Relaxed) {
                self.monitor.event(Event::SnapshotDeleted(&snapshot.name));
            }
        }
    }

    fn report_missing(&self, number: usize) {
        let snapshot = &self.snapshots[number];
        for path in std::mem::take(&mut *lock(&snapshot.held)) {
            self.monitor.damage(&Damage::new(&snapshot.name, &path, Fault::Missing));
            snapshot.counts.damaged.add(1);
            self.findings.inspect(|findings| findings.add(&snapshot.name, &path, Fault::Missing));
        }
    }

    /// Reports the missing entries that were held back.
    pub(super) fn finish(&self) {
        for number in 0..self.snapshots.len() {
            if !lock(&self.snapshots[number].held).is_empty() {
                self.look(number);
                self.report_missing(number);
            }
        }
    }

    /// Reports that something about an entry could not be read: as damage if the filesystem or the device failed,
    /// otherwise as a problem.
    pub(super) fn failed(&self, snapshot: usize, path: &[u8], action: &str, errno: Errno) {
        match errno {
            Errno::NOENT => self.missing(snapshot, path),
            errno if is_data_loss(errno) => self.damage(snapshot, path, None, Fault::Unreadable),
            errno => {
                let action = format!("{action} in the snapshot {}", self.snapshots[snapshot].name);
                self.problem(&Error::io(action, absolute(path), errno));
            }
        }
    }

    /// Reports a failure that is not damage.
    pub(super) fn problem(&self, error: &Error) {
        self.monitor.problem(error);
        self.errors.add(1);
    }
}

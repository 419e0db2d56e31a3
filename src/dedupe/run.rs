//! The state that the stages of one run share: the files, the counters, and when to stop.

use super::account::{Account, Unit};
use super::catalogue::{Catalogue, FileId};
use super::file::{Opened, Opener};
use super::planned::Planned;
use super::skip::{Skip, Skips};
use crate::error::{Error, Result};
use crate::extents::address_space::SpaceId;
use crate::monitor::{Event, Monitor};
use crate::util::bits::Bits;
use crate::util::mutex::lock;
use rustix::io::Errno;
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// One run: shared by its stages and their threads.
pub(crate) struct Run<'a> {
    /// The files in scope.
    pub catalogue: &'a Catalogue,
    /// Opens them.
    pub opener: Opener<'a>,
    /// The skipped files, and why.
    pub skips: Skips,
    /// The bytes freed, by filesystem.
    accounts: Vec<Account>,
    /// The plan of a dry run.
    pub(super) planned: Planned,
    /// Counts of the bytes and files read, submitted and found.
    pub counters: Counters,
    /// Where the stages report.
    pub monitor: &'a dyn Monitor,
    /// Start no new work after this time.
    pub deadline: Option<Instant>,
    /// Only find out what would be shared.
    pub dry_run: bool,
    /// The number of threads; by default each step chooses.
    pub threads: Option<usize>,
    out_of_time: AtomicBool,
    /// Files that share all their data with another file in scope.
    settled: Bits,
    /// Files that represented others, with all of their data shared, when the run began.
    standing: Bits,
    /// Files with inline data, which lies beside the metadata.
    inline: Bits,
    /// Files that got other extents for some ranges.
    moved: Bits,
    /// Files that the cache of the next run will know.
    kept: Bits,
    /// Filesystems that turned out not to share extents.
    unsupported: Mutex<HashSet<u16>>,
}

/// Sums over all threads, in bytes and files, with the meanings of the fields of [`super::Stats`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// File data read.
    pub read: AtomicU64,
    /// Submitted to the kernel, summed over the destinations.
    pub submitted: AtomicU64,
    /// Files found equal.
    pub duplicate_files: AtomicU64,
    /// Their bytes.
    pub duplicate_bytes: AtomicU64,
    /// Shared in files that are not equal as a whole.
    pub ranges: AtomicU64,
    /// Already shared before the run.
    pub already_shared: AtomicU64,
    /// Written to free more than was written.
    pub rewritten: AtomicU64,
    /// Files that the cache knew.
    pub cache_hits: AtomicU64,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

impl<'a> Run<'a> {
    /// A run over these files.
    pub(crate) fn new(catalogue: &'a Catalogue, dry_run: bool, monitor: &'a dyn Monitor) -> Result<Self> {
        let opener = Opener::new(catalogue).map_err(|errno| Error::io("open the directory", "/", errno))?;
        Ok(Run {
            catalogue,
            opener,
            skips: Skips::default(),
            accounts: catalogue
                .volumes()
                .iter()
                .map(|volume| Account::new(Unit::of(volume.kind), volume.space, dry_run))
                .collect(),
            planned: Planned::default(),
            counters: Counters::default(),
            monitor,
            deadline: None,
            dry_run,
            threads: None,
            out_of_time: AtomicBool::new(false),
            settled: Bits::new(catalogue.len()),
            standing: Bits::new(catalogue.len()),
            inline: Bits::new(catalogue.len()),
            moved: Bits::new(catalogue.len()),
            kept: Bits::new(catalogue.len()),
            unsupported: Mutex::default(),
        })
    }

    /// The account of the filesystem of this file.
    pub(crate) fn account(&self, file: FileId) -> &Account {
        &self.accounts[usize::from(self.catalogue.volume_number(file))]
    }

    /// The address space of this file.
    pub(crate) fn space(&self, file: FileId) -> SpaceId {
        self.catalogue.volume(file).space
    }

    /// The accounts of all filesystems.
    pub(crate) fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// Whether to stop, because the user asked to or the time is over. Checked between windows.
    pub(crate) fn is_over(&self) -> bool {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.out_of_time.store(true, Ordering::Relaxed);
        }
        self.is_out_of_time() || self.monitor.is_cancelled()
    }

    /// Whether something was not started because the time was over.
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.out_of_time.load(Ordering::Relaxed)
    }

    /// Marks a file that shares all its data with another file in scope, which represents it from now on.
    pub(crate) fn settle(&self, file: FileId) {
        self.settled.set(file.0 as usize);
    }

    /// Whether another file in scope represents this one.
    pub(crate) fn is_settled(&self, file: FileId) -> bool {
        self.settled.has(file.0 as usize)
    }

    /// Marks a file that represents others: they already share all of its data.
    pub(crate) fn set_standing(&self, file: FileId) {
        self.standing.set(file.0 as usize);
    }

    /// Whether others in scope shared all of this file's data before the run.
    pub(crate) fn is_standing(&self, file: FileId) -> bool {
        self.standing.has(file.0 as usize)
    }

    /// Marks a file with inline data, which lies beside the metadata.
    pub(crate) fn set_inline(&self, file: FileId) {
        self.inline.set(file.0 as usize);
    }

    /// Whether the first stage found the file's data beside the metadata.
    pub(crate) fn is_inline(&self, file: FileId) -> bool {
        self.inline.has(file.0 as usize)
    }

    /// Marks a file that got other extents for some ranges.
    pub(crate) fn set_moved(&self, file: FileId) {
        self.moved.set(file.0 as usize);
    }

    /// The files that got other extents for some ranges.
    pub(crate) fn moved(&self) -> impl Iterator<Item = FileId> {
        self.catalogue.ids().filter(|file| self.moved.has(file.0 as usize))
    }

    /// Marks a file that the cache of the next run will know.
    pub(crate) fn set_kept(&self, file: FileId) {
        self.kept.set(file.0 as usize);
    }

    /// Whether the cache of the next run will know this file.
    pub(crate) fn is_kept(&self, file: FileId) -> bool {
        self.kept.has(file.0 as usize)
    }

    /// The files of at least this size that no other file represents: the input of the stage of ranges.
    pub(crate) fn left(&self, size: u64) -> Vec<FileId> {
        let wanted = |file: &FileId| self.catalogue.size(*file) >= size.max(1) && !self.is_settled(*file);
        self.catalogue.ids().filter(wanted).collect()
    }

    /// Notes that the filesystem of this file reported that it cannot share extents. Returns whether that is new.
    fn set_unsupported(&self, file: FileId) -> bool {
        let volume = self.catalogue.volume_number(file);
        lock(&self.unsupported).insert(volume)
    }

    /// Whether the filesystem of this file reported that it cannot share extents.
    pub(crate) fn is_unsupported(&self, file: FileId) -> bool {
        let unsupported = lock(&self.unsupported);
        unsupported.contains(&self.catalogue.volume_number(file))
    }

    /// Opens a file; if that fails, counts and reports why.
    pub(crate) fn open(&self, file: FileId) -> Option<Opened> {
        self.opener.open(file).map_err(|reason| self.record_skip(file, reason)).ok()
    }

    /// Records that a file is skipped: counts it, and reports it once.
    pub(crate) fn record_skip(&self, file: FileId, reason: Skip) {
        if !self.skips.add(file, reason) {
            return;
        }
        // One report for a filesystem is enough.
        if reason == Skip::Unsupported && !self.set_unsupported(file) {
            return;
        }
        let path = self.catalogue.path(file);
        if reason.is_error() {
            self.monitor.problem(&Error::failed("share the data of").at(path).because(reason.cause()));
        } else {
            self.monitor.event(Event::FileSkipped { path: &path, why: reason });
        }
    }

    /// Records that a file is skipped because a system call failed.
    pub(crate) fn failed(&self, file: FileId, action: &str, errno: Errno) {
        if self.skips.add(file, Skip::Unreadable) {
            self.monitor.problem(&Error::io(action, self.catalogue.path(file), errno));
        }
    }
}

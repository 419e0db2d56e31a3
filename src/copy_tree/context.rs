//! The data that every step of a copy needs. The steps have their own files.

use super::job::Job;
use super::not_kept::NotKept;
use super::options::{Options, TEMPORARY};
use super::plan::Plan;
use super::stats::Stats;
use crate::content::copy::Request;
use crate::error::{Error, Result};
use crate::fs::filesystem::Kind;
use crate::fs::flush::Flusher;
use crate::fs::metadata::{Creator, FileAttrs};
use crate::fs::open_files;
use crate::fs::reopener::Reopener;
use crate::fs::status::Time;
use crate::fs::timestamp::Clocks;
use crate::monitor::Monitor;
use crate::tree::walk::Directory;
use crate::tree::writer::{AfterSync, Devices, Links, Target, Wanted, Wording};
use crate::util::mutex::{self, lock};
use crate::util::semaphore::{Semaphore, cores};
use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// How many files a thread copies together, and so how many sources it has open.
const GROUP: usize = 64;

/// Files of at least this size are copied on a thread of their own.
pub(super) const LARGE: u64 = 1 << 20;

/// A run.
pub(super) struct Context<'a> {
    pub(super) plan: &'a Plan,
    pub(super) options: &'a Options,
    pub(super) monitor: &'a dyn Monitor,
    /// When it began, by the clock that stamps files.
    pub(super) begun: Time,
    pub(super) creator: Creator,
    pub(super) devices: Devices,
    /// Jobs that wait until data is on the disk.
    pub(super) waiting: AfterSync<Job>,
    /// Flushes sources before they are read.
    pub(super) flusher: Flusher,
    /// The clocks that stamp sources.
    pub(super) clocks: Clocks,
    /// The flags and project ids of the sources.
    pub(super) fileattrs: FileAttrs,
    pub(super) links: Links,
    pub(super) not_kept: NotKept,
    /// How to copy content.
    pub(super) request: Request,
    /// How many small files a thread copies together.
    pub(super) group: usize,
    /// How many small files a thread may have open at once.
    pub(super) most_opened: usize,
    /// Limits the threads that create and fill small files at once.
    pub(super) writers: Semaphore,
    /// Limits the threads that copy a large file at once: each keeps the device busy.
    pub(super) large: Semaphore,
    stats: Mutex<Stats>,
    reopener: OnceLock<Reopener>,
}

impl<'a> Context<'a> {
    pub(super) fn new(plan: &'a Plan, options: &'a Options, threads: usize, monitor: &'a dyn Monitor) -> Self {
        // Each file needs two descriptors: source and copy. The small files of all threads together use at most a
        // quarter of the limit. The rest is for directories, and for jobs that wait for a sync.
        let group = open_files::part(4, 0..=usize::MAX) / threads.max(1) / 2;
        let kind = Kind::of(&plan.top).unwrap_or(Kind::UNKNOWN);
        // In a dry run, nothing is written to the destination.
        let spill = (!options.dry_run).then(|| rustix::io::fcntl_dupfd_cloexec(&plan.top, 0).ok()).flatten();
        Context {
            plan,
            options,
            monitor,
            begun: Time::now(),
            creator: Creator::current(),
            devices: Devices::default(),
            waiting: AfterSync::new(),
            flusher: Flusher::default(),
            clocks: Clocks::default(),
            fileattrs: FileAttrs::default(),
            links: Links::new(spill),
            not_kept: NotKept::default(),
            request: Request { engine: options.engine, hashed: false },
            group: group.clamp(1, GROUP),
            most_opened: group,
            writers: Semaphore::new(kind.writers()),
            large: Semaphore::new(cores().min(options.threads.unwrap_or(usize::MAX))),
            stats: Mutex::default(),
            reopener: OnceLock::new(),
        }
    }

    /// Reopens directories of the destination.
    pub(super) fn reopener(&self) -> rustix::io::Result<&Reopener> {
        match self.reopener.get() {
            Some(reopener) => Ok(reopener),
            None => {
                let new = Reopener::new(&self.plan.top)?;
                Ok(self.reopener.get_or_init(|| new))
            }
        }
    }

    /// Checks whether the run can continue.
    ///
    /// # Errors
    /// The run was interrupted, or a sync has failed.
    pub(super) fn check(&self) -> Result<()> {
        if self.monitor.is_cancelled() { Err(Error::interrupted()) } else { self.devices.check(&self.plan.shown) }
    }

    /// The names that a source directory wants in its copy.
    pub(super) fn wanted<'w, P>(&'w self, directory: &'w Directory<P>) -> Wanted<'w> {
        if directory.scaffold { Wanted::These(&self.plan.names) } else { Wanted::Of(directory.fd.as_fd()) }
    }

    /// Whether a directory of the destination is also a source directory.
    pub(super) fn is_source(&self, inode: (u64, u64)) -> bool {
        self.plan.source_inodes.contains(&inode)
    }

    /// How many large files of one directory are started at once. `large` limits the whole run.
    pub(super) fn side_by_side(&self) -> usize {
        cores().min(self.options.threads.unwrap_or(usize::MAX))
    }

    /// Reports that an entry was skipped, and why. Counts it in `part`.
    pub(super) fn problem(&self, error: &Error, part: &mut Stats) {
        part.errors += 1;
        self.monitor.problem(error);
    }

    /// Reports that an entry was skipped, and why. Counts it.
    pub(super) fn report(&self, error: &Error) {
        let mut part = Stats::default();
        self.problem(error, &mut part);
        self.count(&part);
    }

    /// Counts what a part of the run did.
    pub(super) fn count(&self, part: &Stats) {
        lock(&self.stats).add(part);
    }

    pub(super) fn into_stats(self) -> Stats {
        let mut stats = mutex::into_inner(self.stats);
        self.not_kept.count(&mut stats, self.creator.is_root());
        stats
    }
}

/// The words for failures of a copy.
static WORDING: Wording = Wording {
    action: "copy to",
    busy: None,
    full: Some("free some space"),
    immutable: "the existing file or its directory may be immutable or append-only: see lsattr(1)",
    lost: None,
};

impl Target for Context<'_> {
    fn path(&self) -> &Path {
        &self.plan.shown
    }

    fn shown(&self, path: &[u8]) -> PathBuf {
        if path.is_empty() { self.plan.shown.clone() } else { self.plan.shown.join(OsStr::from_bytes(path)) }
    }

    fn devices(&self) -> &Devices {
        &self.devices
    }

    fn creator(&self) -> &Creator {
        &self.creator
    }

    fn temporary(&self) -> &'static str {
        TEMPORARY
    }

    fn wording(&self) -> &'static Wording {
        &WORDING
    }
}

//! What every step of a copy knows.

use super::directory::Place;
use super::file::GROUP;
use super::links::Links;
use super::not_kept::NotKept;
use super::outcome;
use super::pending::Pending;
use super::plan::Plan;
use super::{Options, Stats};
use crate::content::copy::Request;
use crate::error::{Error, Result};
use crate::fs::filesystem::Kind;
use crate::fs::flush::Flusher;
use crate::fs::metadata::{Creator, FileAttrs};
use crate::fs::reopener::Reopener;
use crate::fs::status::Time;
use crate::fs::timestamp::Clocks;
use crate::monitor::Monitor;
use crate::tree::walk::Directory;
use crate::tree::writer::{AfterSync, Devices, Room, Wanted};
use crate::util::mutex::{self, lock};
use crate::util::semaphore::{Semaphore, cores};
use rustix::process::{Resource, getrlimit};
use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

/// A run.
pub(super) struct Context<'a> {
    pub(super) plan: &'a Plan,
    pub(super) options: &'a Options,
    pub(super) monitor: &'a dyn Monitor,
    /// When it began, on the clock that stamps files.
    pub(super) begun: Time,
    pub(super) creator: Creator,
    pub(super) devices: Devices,
    /// What waits until data is on the disk.
    pub(super) writeback: AfterSync<Pending>,
    /// Flushes sources before they are read.
    pub(super) flusher: Flusher,
    /// The clocks that stamp sources.
    pub(super) clocks: Clocks,
    /// Flags and projects of the sources.
    pub(super) fileattrs: FileAttrs,
    pub(super) links: Links,
    pub(super) not_kept: NotKept,
    /// How content comes over.
    pub(super) request: Request,
    /// How many small files a thread has open together.
    pub(super) group: usize,
    /// Threads that create and fill small files at once.
    pub(super) writers: Semaphore,
    /// Threads that copy a large file at once: each keeps the device busy.
    pub(super) large: Semaphore,
    stats: Mutex<Stats>,
    reopener: OnceLock<Reopener>,
}

impl<'a> Context<'a> {
    pub(super) fn new(plan: &'a Plan, options: &'a Options, threads: usize, monitor: &'a dyn Monitor) -> Self {
        // Of each a source and a copy are open. Half of the descriptors are for directories and for what waits for a sync.
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 4;
        let group = usize::try_from(descriptors).unwrap_or(usize::MAX) / threads.max(1) / 2;
        let kind = Kind::of(&plan.top).unwrap_or(Kind::UNKNOWN);
        // In a dry run nothing is written to the destination.
        let spill = (!options.dry_run).then(|| rustix::io::fcntl_dupfd_cloexec(&plan.top, 0).ok()).flatten();
        Context {
            plan,
            options,
            monitor,
            begun: Time::now(),
            creator: Creator::current(),
            devices: Devices::default(),
            writeback: AfterSync::new(),
            flusher: Flusher::default(),
            clocks: Clocks::default(),
            fileattrs: FileAttrs::default(),
            links: Links::new(spill),
            not_kept: NotKept::default(),
            request: Request { engine: options.engine, hashed: false },
            group: group.clamp(1, GROUP),
            writers: Semaphore::new(kind.writers()),
            large: Semaphore::new(cores().min(options.threads.unwrap_or(usize::MAX))),
            stats: Mutex::default(),
            reopener: OnceLock::new(),
        }
    }

    /// Opens directories of the destination again.
    pub(super) fn reopener(&self) -> rustix::io::Result<&Reopener> {
        match self.reopener.get() {
            Some(reopener) => Ok(reopener),
            None => {
                let new = Reopener::new(&self.plan.top)?;
                Ok(self.reopener.get_or_init(|| new))
            }
        }
    }

    /// Has a job done after the next sync. That a sync has failed is known to [`Context::check`].
    pub(super) fn after_sync(&self, job: Pending) {
        if self.writeback.add(job) == Room::Full {
            let sync = || self.devices.sync(&self.plan.shown);
            let _ = self.writeback.round_if_full(sync, |job, synced| job.finish(self, synced));
        }
    }

    /// Syncs, and does the jobs that waited for it. How many these were.
    ///
    /// # Errors
    /// That of the sync: then no job is done any more in this run.
    pub(super) fn round(&self) -> Result<usize> {
        self.writeback.round(|| self.devices.sync(&self.plan.shown), |job, synced| job.finish(self, synced))
    }

    /// Syncs, does all jobs, and syncs what these changed.
    ///
    /// # Errors
    /// See [`Context::round`].
    pub(super) fn settle(&self) -> Result<()> {
        while self.round()? > 0 {}
        Ok(())
    }

    /// Whether the run goes on.
    ///
    /// # Errors
    /// It was interrupted, or a sync has failed.
    pub(super) fn check(&self) -> Result<()> {
        if self.monitor.is_cancelled() { Err(Error::interrupted()) } else { self.devices.check(&self.plan.shown) }
    }

    /// The names that a directory of the sources wants in its copy.
    pub(super) fn wanted<'w, P>(&'w self, directory: &'w Directory<P>) -> Wanted<'w> {
        if directory.scaffold { Wanted::These(&self.plan.names) } else { Wanted::Of(directory.fd.as_fd()) }
    }

    /// Where a path below the top lies, for messages.
    pub(super) fn shown(&self, path: &[u8]) -> PathBuf {
        if path.is_empty() { self.plan.shown.clone() } else { self.plan.shown.join(OsStr::from_bytes(path)) }
    }

    /// Whether a directory of the destination is the same as one of the sources.
    pub(super) fn is_source(&self, inode: (u64, u64)) -> bool {
        self.plan.source_inodes.contains(&inode)
    }

    /// How many large files of one directory are begun at once; the run as a whole has its turns.
    pub(super) fn side_by_side(&self) -> usize {
        cores().min(self.options.threads.unwrap_or(usize::MAX))
    }

    /// Tells that an entry was left out, and why.
    pub(super) fn problem(&self, error: &Error, part: &mut Stats) {
        part.errors += 1;
        self.monitor.problem(error);
    }

    /// Reports that an entry of the destination has more names of extended attributes than the kernel lists: those that its
    /// source does not have are still there.
    pub(super) fn report_unlisted(&self, path: &[u8]) {
        let mut part = Stats::default();
        self.problem(&outcome::unlisted_xattrs(&self.shown(path)), &mut part);
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

    /// The directory that everything comes to lie in.
    pub(super) fn top(&self) -> rustix::io::Result<Place> {
        Place::top(self)
    }
}

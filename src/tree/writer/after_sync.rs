//! Jobs that wait for a sync. A run must not claim that its data is on the disk before it is.
//!
//! A new size, modification time or name can survive a power cut or a write error although the data does not: XFS then
//! shows zeros, and the page cache hides this until the inode leaves memory. A later run that compares sizes and times
//! would consider such a file good. So a file that was written (not cloned) takes two steps:
//!
//! 1. It gets its content and metadata, except its times. A new file gets its name at once, with a modification time
//!    other than the source's. A file that replaces another keeps its temporary name. It then waits in an
//!    [`AfterSync`].
//! 2. After a sync that began later and succeeded, it gets its times and replaces the other file
//!    ([`Unsynced::settle`]). The proof of that sync is [`Synced`], and only [`Devices::sync`](super::Devices::sync)
//!    creates one. After a failed sync this run gets no other, because the kernel reports each failed write only once.
//!
//! A file in a directory with a temporary name may take one step: the directory waits in its place
//! ([`StagedDir::put_synced`](super::StagedDir::put_synced)).
//!
//! Everything that follows from a waiting entry waits behind it (the times of its directory, flags that forbid
//! changes): jobs are done in the order in which they were added.
//!
//! A run calls [`AfterSync::during`] around its work, with a round as its argument. After the work it does rounds until
//! one had nothing to do. With the rounds of [`Run`](super::Run):
//!
//! ```text
//! let done = run.waiting().during(|| run.round(), work);
//! run.settle()?;
//! done
//! ```

use super::Synced;
use crate::error::Result;
use crate::fs::open_files;
use crate::fs::writeback::Writeback;
use crate::util::mutex::lock;
use std::sync::{Mutex, MutexGuard};

/// The most jobs that may wait for one sync. Each holds a descriptor or two. The current round may have as many again.
const MOST: usize = 8192;

/// While one thread does the jobs of a round, another syncs for the next round.
const THREADS: usize = 2;

/// The jobs of a run that wait for a sync.
#[derive(Debug)]
pub(crate) struct AfterSync<J> {
    ahead: Writeback,
    waiting: Mutex<Vec<J>>,
    /// Held during the sync of a round, until its jobs begin.
    syncing: Mutex<()>,
    /// Held while the jobs of a round are done.
    finishing: Mutex<()>,
    most: usize,
}

/// Whether more jobs may be added before the next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "when it is full, the caller does a round"]
pub(crate) enum Room {
    /// There is room for more.
    Left,
    /// The limit is reached.
    Full,
}

impl<J: Send> AfterSync<J> {
    /// No job waits.
    pub(crate) fn new() -> Self {
        AfterSync {
            ahead: Writeback::default(),
            waiting: Mutex::default(),
            syncing: Mutex::default(),
            finishing: Mutex::default(),
            most: open_files::part(8, 1..=MOST),
        }
    }

    /// Counts created files, and the bytes written to them: see [`Writeback::made`].
    pub(crate) fn made(&self, files: u64, bytes: u64) {
        self.ahead.made(files, bytes);
    }

    /// Adds a job, to be done after the next sync.
    pub(crate) fn add(&self, job: J) -> Room {
        let mut waiting = lock(&self.waiting);
        waiting.push(job);
        if waiting.len() >= self.most { Room::Full } else { Room::Left }
    }

    /// Does a round if [`AfterSync::add`] reported that there is no room: the caller waits instead of adding jobs
    /// without limit.
    ///
    /// # Errors
    /// See [`AfterSync::round`].
    pub(crate) fn round_if_full(
        &self,
        sync: impl FnOnce() -> Result<Synced>,
        finish: impl FnMut(J, &Synced),
    ) -> Result<()> {
        let alone = lock(&self.syncing);
        // Another thread may have done a round meanwhile.
        if lock(&self.waiting).len() < self.most { Ok(()) } else { self.locked_round(alone, sync, finish).map(|_| ()) }
    }

    /// Does one round: a sync, and then all jobs that waited when the sync began. Returns their number. The sync of the
    /// next round may begin while these jobs are done.
    ///
    /// # Errors
    /// The error of the sync. Then the jobs are dropped: nothing may be done after it.
    pub(crate) fn round(&self, sync: impl FnOnce() -> Result<Synced>, finish: impl FnMut(J, &Synced)) -> Result<usize> {
        self.locked_round(lock(&self.syncing), sync, finish)
    }

    fn locked_round(
        &self,
        alone: MutexGuard<'_, ()>,
        sync: impl FnOnce() -> Result<Synced>,
        mut finish: impl FnMut(J, &Synced),
    ) -> Result<usize> {
        let jobs = std::mem::take(&mut *lock(&self.waiting));
        let synced = sync()?;
        let count = jobs.len();
        // The previous lock is held until this one is acquired, so that the jobs of two rounds keep their order.
        let _turn = lock(&self.finishing);
        drop(alone);
        jobs.into_iter().for_each(|job| finish(job, &synced));
        Ok(count)
    }

    /// Does this work, and a round whenever enough files were created. The caller does the last rounds.
    ///
    /// # Errors
    /// Errors of a round, otherwise those of the work.
    pub(crate) fn during<R>(
        &self,
        round: impl Fn() -> Result<usize> + Sync,
        work: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        self.ahead.during(THREADS, || round().map(|_| ()), work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::sync::Barrier;
    use std::thread;

    #[test]
    fn jobs_are_done_in_their_order_after_a_sync_that_began_later() {
        let waiting = AfterSync::new();
        for number in 0..5 {
            assert_eq!(waiting.add(number), Room::Left);
        }
        let mut done = Vec::new();
        let sync = || {
            // It may be too late for this sync.
            assert_eq!(waiting.add(5), Room::Left);
            Ok(Synced::assumed())
        };
        assert_eq!(waiting.round(sync, |job, _| done.push(job)).unwrap(), 5);
        assert_eq!(done, [0, 1, 2, 3, 4]);
        assert_eq!(waiting.round(|| Ok(Synced::assumed()), |job, _| done.push(job)).unwrap(), 1);
        assert_eq!(waiting.round(|| Ok(Synced::assumed()), |job, _| done.push(job)).unwrap(), 0);
    }

    #[test]
    fn after_a_failed_sync_no_job_is_done() {
        let waiting = AfterSync::new();
        let _ = waiting.add(());
        assert!(waiting.round(|| Err(Error::failed("sync")), |(), _| panic!("it is done")).is_err());
        assert_eq!(waiting.round(|| Ok(Synced::assumed()), |(), _| panic!("it is done")).unwrap(), 0);
    }

    #[test]
    fn a_later_round_syncs_meanwhile_and_its_jobs_come_later() {
        let waiting = AfterSync::new();
        let done = Mutex::new(Vec::new());
        let (begun, synced) = (Barrier::new(2), Barrier::new(2));
        let _ = waiting.add(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                let finish = |job, _: &Synced| {
                    begun.wait();
                    synced.wait();
                    lock(&done).push(job);
                };
                waiting.round(|| Ok(Synced::assumed()), finish).unwrap();
            });
            begun.wait();
            let _ = waiting.add(1);
            let sync = || {
                synced.wait();
                Ok(Synced::assumed())
            };
            waiting.round(sync, |job, _| lock(&done).push(job)).unwrap();
        });
        assert_eq!(*lock(&done), [0, 1]);
    }

    #[test]
    fn a_job_too_many_waits_for_a_round() {
        let waiting = AfterSync { most: 2, ..AfterSync::new() };
        assert_eq!([waiting.add(0), waiting.add(1)], [Room::Left, Room::Full]);
        let mut done = 0;
        waiting.round_if_full(|| Ok(Synced::assumed()), |_, _| done += 1).unwrap();
        waiting.round_if_full(|| panic!("there is room again"), |_: i32, _| done += 1).unwrap();
        assert_eq!(done, 2);
    }
}

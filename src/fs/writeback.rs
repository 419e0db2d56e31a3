//! Writes new files to the disk while more are being created, so that the final sync is short.
//!
//! The kernel alone starts only after seconds, or when a tenth of the memory is dirty.

use crate::error::Result;
use crate::util::mutex::lock;
use std::panic::resume_unwind;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

/// The least data between two syncs: some thousand small files. Each sync costs a write to the journal and a flush of
/// the device's cache.
const STEP: u64 = 32 << 20;
/// How much a file counts in addition to its content: an inode, a name, and the journal entries of both.
const FILE: u64 = 8 << 10;

/// The files and bytes created since the last sync.
#[derive(Debug, Default)]
pub(crate) struct Writeback {
    made: Mutex<Made>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Made {
    bytes: u64,
    is_over: bool,
}

impl Writeback {
    /// Records that this many files were created, with this much written content.
    pub(crate) fn made(&self, files: u64, bytes: u64) {
        let mut made = lock(&self.made);
        let before = made.bytes;
        made.bytes += files * FILE + bytes;
        if before < STEP && made.bytes >= STEP {
            self.changed.notify_one();
        }
    }

    /// Does this work, and calls `sync` on this many threads whenever enough was created. The caller syncs the rest.
    ///
    /// # Errors
    /// The error of a sync, otherwise that of the work. The kernel reports a failed write once, to the next sync.
    pub(crate) fn during<R>(
        &self,
        threads: usize,
        sync: impl Fn() -> Result<()> + Sync,
        work: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let (done, ahead) = thread::scope(|scope| {
            let over = Over(self);
            let start =
                || thread::Builder::new().name("sync".into()).spawn_scoped(scope, || self.sync_meanwhile(&sync));
            // Without threads, the caller syncs everything.
            let syncing: Vec<_> = (0..threads).map_while(|_| start().ok()).collect();
            let done = work();
            drop(over);
            let join = |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            let joined: Vec<Result<()>> = syncing.into_iter().map(join).collect();
            (done, joined.into_iter().collect::<Result<()>>())
        });
        // A failed sync is reported only once, so it must not be lost.
        ahead?;
        done
    }

    /// Syncs whenever enough was created, until the work is over.
    fn sync_meanwhile(&self, sync: impl Fn() -> Result<()>) -> Result<()> {
        loop {
            let is_idle = |made: &mut Made| made.bytes < STEP && !made.is_over;
            let made = self.changed.wait_while(lock(&self.made), is_idle);
            let mut made = made.unwrap_or_else(PoisonError::into_inner);
            if made.is_over {
                return Ok(());
            }
            made.bytes = 0;
            drop(made);
            sync()?;
        }
    }
}

/// Signals the end of the work, however it ends.
struct Over<'a>(&'a Writeback);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        lock(&self.0.made).is_over = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    #[test]
    fn it_syncs_as_soon_as_enough_was_made_and_not_for_less() {
        let (ahead, synced) = (Writeback::default(), AtomicU64::new(0));
        let sync = || {
            synced.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        let made = ahead.during(1, sync, || {
            for round in 1..4 {
                ahead.made(1, STEP - FILE - 1);
                thread::sleep(Duration::from_millis(10));
                assert_eq!(synced.load(Ordering::SeqCst), round - 1);
                ahead.made(0, 1);
                let begun = Instant::now();
                while synced.load(Ordering::SeqCst) < round {
                    assert!(begun.elapsed() < Duration::from_secs(60), "it never syncs");
                    thread::sleep(Duration::from_millis(1));
                }
            }
            Ok("made")
        });
        assert_eq!(made.unwrap(), "made");
    }

    #[test]
    fn a_failed_sync_is_told_when_the_work_is_done() {
        let (ahead, synced) = (Writeback::default(), AtomicU64::new(0));
        let sync = || {
            synced.fetch_add(1, Ordering::SeqCst);
            Err(Error::failed("sync"))
        };
        let work = || {
            ahead.made(0, STEP);
            while synced.load(Ordering::SeqCst) == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        };
        assert_eq!(ahead.during(1, sync, work).unwrap_err().to_string(), Error::failed("sync").to_string());
    }

    #[test]
    fn work_that_fails_or_panics_ends() {
        let work = || Err::<(), _>(Error::failed("work"));
        assert!(Writeback::default().during(1, || Ok(()), work).is_err());
        let panicking = || Writeback::default().during(1, || Ok(()), || -> Result<()> { panic!("on purpose") });
        assert!(std::panic::catch_unwind(panicking).is_err());
    }
}

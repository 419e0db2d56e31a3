//! Progress: the library counts, and the thread that waits for it reports to the monitor.

use super::guard::Guard;
use crate::error::{Error, ErrorKind, Result};
use crate::monitor::{Amount, Monitor};
use crate::util::mutex::lock;
use rustic_core::{Progress, ProgressBars, ProgressType, RusticProgress};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How often the monitor hears of the progress, and is asked whether the user wants to stop.
const INTERVAL: Duration = Duration::from_millis(20);

/// Counts of the library's threads.
#[derive(Debug, Default)]
pub(super) struct Counts {
    bytes: AtomicU64,
    length: AtomicU64,
    files: AtomicU64,
    is_cancelled: AtomicBool,
    is_damaged: AtomicBool,
    /// Bytes of the files that the library was given since the last beginning.
    offered: AtomicU64,
    /// Entries that were reported as skipped since then.
    dropped: AtomicU64,
    problems: Mutex<Vec<Error>>,
}

impl Counts {
    /// More files are done.
    pub(super) fn files(&self, number: u64) {
        self.files.fetch_add(number, Ordering::Relaxed);
    }

    /// A snapshot begins.
    pub(super) fn begin(&self) {
        self.offered.store(0, Ordering::Relaxed);
        self.dropped.store(0, Ordering::Relaxed);
    }

    /// The library is given an entry with content of this size.
    pub(super) fn offer(&self, bytes: u64) {
        self.offered.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of the files that the library was given.
    pub(super) fn offered(&self) -> u64 {
        self.offered.load(Ordering::Relaxed)
    }

    /// How many entries were reported as skipped.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// An entry failed.
    pub(super) fn problem(&self, error: Error) {
        if !error.keeps_entry() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        if error.kind() == ErrorKind::Damage {
            self.is_damaged.store(true, Ordering::Relaxed);
        }
        lock(&self.problems).push(error);
    }

    /// Whether one of the problems so far was damage.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Whether the user asked to stop.
    pub(super) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

/// The library's bars: only those of bytes count.
#[derive(Debug)]
pub(super) struct Bars(pub(super) Arc<Counts>);

impl ProgressBars for Bars {
    fn progress(&self, kind: ProgressType, _: &str) -> Progress {
        match kind {
            ProgressType::Bytes => Progress::new(Bar(self.0.clone())),
            ProgressType::Counter | ProgressType::Spinner => Progress::hidden(),
        }
    }
}

#[derive(Debug)]
struct Bar(Arc<Counts>);

impl RusticProgress for Bar {
    // A backup would ask for the size of its source.
    fn is_hidden(&self) -> bool {
        true
    }

    fn set_length(&self, length: u64) {
        self.0.length.store(length, Ordering::Relaxed);
    }

    fn set_title(&self, _: &str) {}

    fn inc(&self, bytes: u64) {
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn finish(&self) {}
}

/// Does work of the library on another thread, and passes its progress to the monitor. `cancel` is called when the
/// user asks to stop. Returns the result and the number of problems.
///
/// # Errors
/// If the thread cannot be started.
pub(super) fn watch<T: Send>(
    counts: &Arc<Counts>,
    phase: Option<&str>,
    monitor: &dyn Monitor,
    cancel: impl Fn(),
    work: impl FnOnce() -> T + Send,
) -> Result<(thread::Result<T>, u64)> {
    let mut problems = 0;
    let mut pass = |named: &mut bool| {
        let length = counts.length.swap(0, Ordering::Relaxed);
        if let Some(phase) = phase.filter(|_| length > 0 || !*named) {
            *named = true;
            let expected = (length > 0).then_some(Amount { files: 0, bytes: length });
            monitor.phase(phase, expected);
        }
        let done =
            Amount { files: counts.files.swap(0, Ordering::Relaxed), bytes: counts.bytes.swap(0, Ordering::Relaxed) };
        if done != Amount::default() {
            monitor.advance(done);
        }
        for error in std::mem::take(&mut *lock(&counts.problems)) {
            problems += 1;
            monitor.problem(&error);
        }
        if monitor.is_cancelled() && !counts.is_cancelled.swap(true, Ordering::Relaxed) {
            cancel();
        }
    };
    let result = thread::scope(|scope| {
        let waiter = thread::current();
        // A scope's own `spawn` would panic, here where nothing catches it.
        let worker = thread::Builder::new().spawn_scoped(scope, move || {
            let _guard = Guard::new();
            let result = work();
            waiter.unpark();
            result
        });
        let worker = worker.map_err(|cause| Error::failed("start a thread").because(cause))?;
        let mut named = false;
        while !worker.is_finished() {
            pass(&mut named);
            thread::park_timeout(INTERVAL);
        }
        let result = worker.join();
        pass(&mut named);
        Ok::<_, Error>(result)
    })?;
    Ok((result, problems))
}

/// Does work that changes nothing on another thread, and leaves that alone if the user asks to stop: a host may be
/// silent for a while.
pub(super) fn unless_cancelled<T: Send + 'static>(
    monitor: &dyn Monitor,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let failed = |cause| Error::failed("start a thread").because(cause);
    let (done, result) = mpsc::channel();
    let worker = thread::Builder::new().name("store".into()).spawn(move || drop(done.send(work()))).map_err(failed)?;
    loop {
        match result.recv_timeout(INTERVAL) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) if monitor.is_cancelled() => return Err(Error::interrupted()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => return Err(Error::interrupted()),
            },
        }
    }
}

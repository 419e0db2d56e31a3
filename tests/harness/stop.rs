//! Runs that are stopped in the middle, by a monitor that asks to stop after a certain amount of work.

use pleach::error::{ErrorKind, Result};
use pleach::monitor::{Amount, Monitor};
use pleach::snapshot::create::{self, Options, Stats};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Asks a run to stop.
pub(crate) struct StopAfter {
    most: Amount,
    files: AtomicU64,
    bytes: AtomicU64,
}

impl StopAfter {
    /// After this many entries.
    pub(crate) fn entries(files: u64) -> StopAfter {
        StopAfter::amount(Amount { files, bytes: u64::MAX })
    }

    /// After this many bytes.
    pub(crate) fn bytes(bytes: u64) -> StopAfter {
        StopAfter::amount(Amount { files: u64::MAX, bytes })
    }

    fn amount(most: Amount) -> StopAfter {
        StopAfter { most, files: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }
}

impl Monitor for StopAfter {
    fn advance(&self, done: Amount) {
        self.files.fetch_add(done.files, Ordering::Relaxed);
        self.bytes.fetch_add(done.bytes, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.files.load(Ordering::Relaxed) >= self.most.files || self.bytes.load(Ordering::Relaxed) >= self.most.bytes
    }
}

/// Takes a snapshot with this name on one thread.
pub(crate) fn take(name: &str, source: &Path, repo: &Path, monitor: &dyn Monitor) -> Result<Stats> {
    let options = Options { name: Some(name.into()), threads: Some(1), ..Options::default() };
    create::create(&[source.to_path_buf()], repo, &options, monitor)
}

/// Takes a snapshot that is stopped after this many bytes. Its partial work stays.
#[track_caller]
pub(crate) fn take_until(bytes: u64, name: &str, source: &Path, repo: &Path) {
    let error = take(name, source, repo, &StopAfter::bytes(bytes)).expect_err("it was stopped");
    assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    assert!(!repo.join(name).exists());
}

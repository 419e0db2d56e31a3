//! Waiting for hosts: how long for an answer, and how often for a better one.

use super::super::watched::Watch;
use super::error::failed;
use rustic_core::RusticResult;
use std::io;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// How long a host may be silent.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// How long a request with data may take: a pack has up to some hundred megabytes.
pub(super) const LONG_PATIENCE: Duration = Duration::from_secs(30 * 60);
/// The pauses, in seconds, after which a request is repeated.
const PAUSES: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// How often it is repeated.
pub(super) const REPETITIONS: usize = PAUSES.len();
/// How often a pause looks whether the run has ended.
const INTERVAL: Duration = Duration::from_millis(50);

/// The threads on which requests run.
pub(super) fn runtime() -> RusticResult<&'static Runtime> {
    static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(2).enable_all().build());
    made.as_ref().map_err(|error| failed("start the threads for requests", io::Error::from(error.kind())))
}

/// Repeats a request after each pause until it succeeds, or the run ends, or it fails for a reason that stays.
pub(super) fn repeat<T, E>(
    watch: &Watch,
    is_temporary: impl Fn(&E) -> bool,
    mut request: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    for pause in PAUSES.map(Duration::from_secs) {
        match request() {
            Err(error) if is_temporary(&error) && ends_within(watch, pause) => return Err(error),
            Err(error) if is_temporary(&error) => {}
            result => return result,
        }
    }
    request()
}

/// Waits so long, unless the run ends. Whether it has.
fn ends_within(watch: &Watch, pause: Duration) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < pause && !watch.is_over() {
        thread::sleep(INTERVAL);
    }
    watch.is_over()
}

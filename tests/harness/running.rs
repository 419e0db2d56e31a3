//! Runs in progress: begun, awaited, signalled, and ended.

use super::Run;
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Starts a command and does not wait for it. Its stdin is a pipe.
pub(crate) fn begin(command: &mut Command) -> Child {
    let begun = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    begun.unwrap_or_else(|error| panic!("{command:?} cannot run: {error}"))
}

/// Waits for its end.
pub(crate) fn end(child: Child) -> Run {
    let line = format!("process {}", child.id());
    Run::new(child.wait_with_output().expect("a child can be waited for"), line)
}

/// Sends it a signal.
#[track_caller]
pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("a child can be signalled");
}

/// Waits until something is true. `what` is said if it never is.
#[track_caller]
pub(crate) fn await_that(what: &str, mut is_true: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

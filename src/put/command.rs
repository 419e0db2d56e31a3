//! A command that writes the new content to its standard output. It runs without a shell, with pleach's standard input
//! and error, in its own process group. Everything that it has started can therefore be ended with it.
//!
//! Only the exit status proves that the output is complete, so pleach waits for it. A failed command ends the reading
//! at once. If the command has succeeded but another process still holds its output open, reading continues as in a
//! shell's pipe, with a warning: that process may have more to write. If the command fails or pleach is interrupted,
//! the whole group is ended.

use super::foreground::Foreground;
use super::job::Failure;
use crate::error::{Error, Result};
use crate::monitor::{Event, Monitor};
use crate::util::mutex::lock;
use crate::util::process::{ProcessGroup, ending};
use crate::util::text;
use rustix::process::{Signal, getpid, kill_process};
use std::ffi::OsString;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest sleep between two checks whether it has ended.
const LONGEST_NAP: Duration = Duration::from_millis(50);
/// How long its output may stay open after its end before a warning is printed.
const OPEN_END: Duration = Duration::from_secs(3);
/// How long a failure waits for the signal that may have caused it: somebody may have sent it to both processes.
const SAME_SIGNAL: Duration = Duration::from_millis(100);

/// A running command. If it is dropped before it has succeeded, its process group is ended.
#[derive(Debug)]
pub(super) struct Producer {
    program: OsString,
    group: ProcessGroup,
    foreground: Foreground,
    has_succeeded: AtomicBool,
    /// The read end of its output; only `drop` takes it.
    output: Option<OwnedFd>,
    /// When it was first seen to have succeeded with its output still open, and whether that was reported.
    open_end: Mutex<Option<(Instant, bool)>>,
}

impl Producer {
    /// Starts a command: a program and its arguments. The program is searched in `PATH` unless it contains a slash.
    ///
    /// # Errors
    /// If the program does not exist or cannot be executed.
    pub(super) fn start(words: &[OsString], shares_terminal: bool) -> Result<Producer> {
        let (program, arguments) = words.split_first().ok_or_else(|| Error::usage("run a command without a name"))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::inherit()).stdout(Stdio::piped());
        let group = ProcessGroup::start(&mut command).map_err(|cause| Error::not_started(program, cause))?;
        Ok(Producer {
            program: program.clone(),
            output: group.take_output().map(OwnedFd::from),
            foreground: Foreground::of(group.id(), shares_terminal),
            group,
            has_succeeded: AtomicBool::new(false),
            open_end: Mutex::new(None),
        })
    }

    /// The read end of its output.
    pub(super) fn output(&self) -> Option<BorrowedFd<'_>> {
        self.output.as_ref().map(|output| output.as_fd())
    }

    /// Called while no output arrives: whether the command has failed, so that nothing more has to be read.
    pub(super) fn has_failed(&self, monitor: &dyn Monitor) -> bool {
        self.foreground.attend();
        match self.group.status() {
            Some(status) if status.success() => {
                self.warn_of_open_end(monitor);
                false
            }
            Some(_) => true,
            None => false,
        }
    }

    /// Waits for its end after its output has ended.
    ///
    /// # Errors
    /// If the command failed, or the user asked to stop.
    pub(super) fn finish(&self, monitor: &dyn Monitor) -> std::result::Result<(), Failure> {
        let mut nap = Duration::from_millis(1);
        let status = loop {
            if monitor.is_cancelled() {
                return Err(Failure::Interrupted);
            }
            if let Some(status) = self.group.status() {
                break status;
            }
            self.foreground.attend();
            std::thread::sleep(nap);
            nap = (2 * nap).min(LONGEST_NAP);
        };
        let is_given = self.foreground.is_given();
        self.foreground.take_back();
        if status.success() {
            self.has_succeeded.store(true, Ordering::Relaxed);
            return Ok(());
        }
        if is_given && (status.signal() == Some(libc::SIGINT) || status.code() == Some(128 + libc::SIGINT)) {
            // Only the command received the Ctrl-C, which was meant for both.
            let _ = kill_process(getpid(), Signal::INT);
        }
        let failed = Instant::now();
        while failed.elapsed() < SAME_SIGNAL {
            if monitor.is_cancelled() {
                return Err(Failure::Interrupted);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(Failure::Command(format!("{} {}", text::path(Path::new(&self.program)), ending(status))))
    }

    fn warn_of_open_end(&self, monitor: &dyn Monitor) {
        let mut open_end = lock(&self.open_end);
        let (since, reported) = open_end.get_or_insert_with(|| (Instant::now(), false));
        if !*reported && since.elapsed() >= OPEN_END {
            *reported = true;
            monitor.event(Event::OutputHeldOpen(&self.program));
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.foreground.take_back();
        if self.has_succeeded.load(Ordering::Relaxed) {
            self.group.reap();
        } else {
            // Closed first: a process that is still writing gets SIGPIPE.
            drop(self.output.take());
            self.group.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;
    use crate::util::process::has_ended;
    use rustix::process::{kill_process_group, test_kill_process_group};

    fn start(words: &[&str]) -> Result<Producer> {
        Producer::start(&words.iter().map(OsString::from).collect::<Vec<_>>(), false)
    }

    #[test]
    fn a_command_succeeds_only_by_its_status() {
        assert!(start(&["true"]).unwrap().finish(&Silent).is_ok());
        let failed = start(&["sh", "-c", "exec >&-; exit 7"]).unwrap().finish(&Silent);
        assert!(matches!(failed, Err(Failure::Command(why)) if why == "sh exited with status 7"));
    }

    #[test]
    fn a_command_that_is_dropped_is_terminated_and_reaped() {
        let producer = start(&["sleep", "1000"]).unwrap();
        let id = producer.group.id();
        drop(producer);
        assert_eq!(rustix::process::test_kill_process(id), Err(rustix::io::Errno::SRCH));
    }

    #[test]
    fn a_command_that_is_dropped_takes_everything_it_started_with_it() {
        for script in ["sleep 1000 & sleep 1000 & wait", "(sleep 1000 & sleep 1000 &) ; kill -STOP $$"] {
            let producer = start(&["sh", "-c", script]).unwrap();
            std::thread::sleep(Duration::from_millis(200));
            let group = producer.group.id();
            drop(producer);
            assert!(has_ended(group), "{script}");
        }
    }

    #[test]
    fn a_process_that_a_successful_command_leaves_behind_goes_on() {
        let producer = start(&["sh", "-c", "sleep 1000 > /dev/null & exit 0"]).unwrap();
        let group = producer.group.id();
        assert!(producer.finish(&Silent).is_ok());
        drop(producer);
        assert!(test_kill_process_group(group).is_ok());
        let _ = kill_process_group(group, Signal::KILL);
    }

    #[test]
    fn a_command_that_does_not_exist_is_named() {
        let message = start(&["no such program"]).unwrap_err().to_string();
        assert_eq!(message, "cannot run 'no such program': command not found");
    }
}

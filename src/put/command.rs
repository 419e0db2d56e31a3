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
use crate::util::text;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, getpid, kill_process, kill_process_group,
    test_kill_process_group, waitid,
};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a process group may take to end after SIGTERM, and after SIGKILL.
const GRACE: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(2)];
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
    child: Mutex<Child>,
    /// Its process group, with the same id.
    group: Pid,
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
        // The standard library gives the child the default handling of SIGPIPE; exec resets our signal handlers.
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::inherit()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|cause| refused(program, cause))?;
        let group = Pid::from_child(&child);
        Ok(Producer {
            program: program.clone(),
            output: child.stdout.take().map(OwnedFd::from),
            child: Mutex::new(child),
            group,
            foreground: Foreground::of(group, shares_terminal),
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
        match self.status() {
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
            if let Some(status) = self.status() {
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

    /// Its exit status, if it has ended. It is not reaped here: until then no other process group can get its id.
    fn status(&self) -> Option<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.group), options) {
            Ok(status) => status.map(|status| exit_status(&status)),
            // A child that cannot be waited for has an unknown status: never a success.
            Err(_) => Some(lock(&self.child).try_wait().ok().flatten().unwrap_or(ExitStatus::from_raw(255 << 8))),
        }
    }

    fn warn_of_open_end(&self, monitor: &dyn Monitor) {
        let mut open_end = lock(&self.open_end);
        let (since, reported) = open_end.get_or_insert_with(|| (Instant::now(), false));
        if !*reported && since.elapsed() >= OPEN_END {
            *reported = true;
            monitor.event(Event::OutputHeldOpen(&self.program));
        }
    }

    /// Asks its process group to end, and kills the processes that do not.
    fn end_group(&mut self) {
        // Closed first: a process that is still writing gets SIGPIPE.
        drop(self.output.take());
        for (signal, grace) in [Signal::TERM, Signal::KILL].into_iter().zip(GRACE) {
            if self.has_group_ended() {
                return;
            }
            let _ = kill_process_group(self.group, signal);
            // A stopped process handles the signal only when it is continued.
            let _ = kill_process_group(self.group, Signal::CONT);
            let asked = Instant::now();
            while !self.has_group_ended() && asked.elapsed() < grace {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// Whether it has ended, and its group has no process left that may be signalled.
    fn has_group_ended(&self) -> bool {
        if self.status().is_none() {
            return false;
        }
        let _ = lock(&self.child).try_wait();
        test_kill_process_group(self.group).is_err() || has_only_zombies(self.group)
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.foreground.take_back();
        if self.has_succeeded.load(Ordering::Relaxed) {
            let _ = lock(&self.child).try_wait();
        } else {
            self.end_group();
        }
    }
}

/// Whether all processes of a group have ended and only wait for their parents or init to reap them. Unknown without
/// `/proc`.
fn has_only_zombies(group: Pid) -> bool {
    let group = group.as_raw_nonzero().to_string();
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let is_living_member = |stat: String| {
        // `pid (name) state ppid pgrp …`; the name may contain any character.
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let (state, of) = (fields.next().unwrap_or_default(), fields.nth(1).unwrap_or_default());
        of == group && !matches!(state, "Z" | "X")
    };
    let stats = processes.flatten().filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit());
    let mut stats = stats.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    !stats.any(is_living_member)
}

fn exit_status(status: &WaitIdStatus) -> ExitStatus {
    let raw = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (code & 0xff) << 8,
        (None, Some(signal)) => signal & 0x7f,
        (None, None) => 255 << 8,
    };
    ExitStatus::from_raw(raw)
}

/// Why a command cannot be started.
fn refused(program: &OsStr, cause: io::Error) -> Error {
    let path = Path::new(program);
    let error = Error::failed("run").at(path);
    let has_slash = program.as_encoded_bytes().contains(&b'/');
    match cause.kind() {
        ErrorKind::NotFound if has_slash && path.exists() => {
            error.because(cause).hint("its interpreter (the line '#!') does not exist").with_code("command-not-found")
        }
        ErrorKind::NotFound => error.because(io::Error::other("command not found")).with_code("command-not-found"),
        _ => error.because(cause),
    }
}

/// How a command ended, as the end of a sentence.
fn ending(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exited with status {code}"),
        None => {
            let shown = status.to_string();
            format!("was killed by {}", shown.replacen("signal: ", "signal ", 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;

    fn start(words: &[&str]) -> Result<Producer> {
        Producer::start(&words.iter().map(OsString::from).collect::<Vec<_>>(), false)
    }

    #[test]
    fn how_a_command_ended_is_part_of_the_message() {
        assert_eq!(ending(ExitStatus::from_raw(3 << 8)), "exited with status 3");
        assert_eq!(ending(ExitStatus::from_raw(9)), "was killed by signal 9 (SIGKILL)");
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
        let id = producer.group;
        drop(producer);
        assert_eq!(rustix::process::test_kill_process(id), Err(rustix::io::Errno::SRCH));
    }

    #[test]
    fn a_command_that_is_dropped_takes_everything_it_started_with_it() {
        for script in ["sleep 1000 & sleep 1000 & wait", "(sleep 1000 & sleep 1000 &) ; kill -STOP $$"] {
            let producer = start(&["sh", "-c", script]).unwrap();
            std::thread::sleep(Duration::from_millis(200));
            let group = producer.group;
            drop(producer);
            assert!(test_kill_process_group(group).is_err() || has_only_zombies(group), "{script}");
        }
    }

    #[test]
    fn a_process_that_a_successful_command_leaves_behind_goes_on() {
        let producer = start(&["sh", "-c", "sleep 1000 > /dev/null & exit 0"]).unwrap();
        let group = producer.group;
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

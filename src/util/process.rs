//! A child process in a process group of its own. Everything that it has started can be ended with it, unless that has
//! moved to another group.

use super::mutex::lock;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, test_kill_process_group, waitid,
};
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdout, Command, ExitStatus};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long a process group may take to end after SIGTERM, and after SIGKILL.
const GRACE: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(2)];

/// A child process and its group.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    child: Mutex<Child>,
    /// The group's id, which is also the id of the child.
    id: Pid,
}

impl ProcessGroup {
    /// Starts a command as the leader of a new group.
    pub(crate) fn start(command: &mut Command) -> io::Result<ProcessGroup> {
        // The standard library gives the child the default handling of SIGPIPE; exec resets our signal handlers.
        let child = command.process_group(0).spawn()?;
        let id = Pid::from_child(&child);
        Ok(ProcessGroup { child: Mutex::new(child), id })
    }

    /// The group's id.
    pub(crate) fn id(&self) -> Pid {
        self.id
    }

    /// The read end of the child's output, if it is a pipe that nobody has taken yet.
    pub(crate) fn take_output(&self) -> Option<ChildStdout> {
        lock(&self.child).stdout.take()
    }

    /// The child's exit status, if it has ended. It is not reaped here: until then no other process group can get its
    /// id.
    pub(crate) fn status(&self) -> Option<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.id), options) {
            Ok(status) => status.map(|status| exit_status(&status)),
            // A child that cannot be waited for has an unknown status: never a success.
            Err(_) => Some(lock(&self.child).try_wait().ok().flatten().unwrap_or(ExitStatus::from_raw(255 << 8))),
        }
    }

    /// Reaps the child if it has ended.
    pub(crate) fn reap(&self) {
        let _ = lock(&self.child).try_wait();
    }

    /// Asks the group to end, kills the processes that do not, and reaps the child.
    pub(crate) fn end(&self) {
        for (signal, grace) in [Signal::TERM, Signal::KILL].into_iter().zip(GRACE) {
            if self.has_ended() {
                return;
            }
            let _ = kill_process_group(self.id, signal);
            // A stopped process handles the signal only when it is continued.
            let _ = kill_process_group(self.id, Signal::CONT);
            let asked = Instant::now();
            while !self.has_ended() && asked.elapsed() < grace {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// Whether the child has ended, and its group has no process left that may be signalled.
    fn has_ended(&self) -> bool {
        if self.status().is_none() {
            return false;
        }
        self.reap();
        has_ended(self.id)
    }
}

/// Whether a group has no process left, except processes that have ended and only wait for their parents or init to
/// reap them. Without `/proc`, these count as left.
pub(crate) fn has_ended(group: Pid) -> bool {
    test_kill_process_group(group).is_err() || has_only_zombies(group)
}

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

/// How a command ended, as the end of a sentence.
pub(crate) fn ending(status: ExitStatus) -> String {
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

    #[test]
    fn how_a_command_ended_is_part_of_the_message() {
        assert_eq!(ending(ExitStatus::from_raw(3 << 8)), "exited with status 3");
        assert_eq!(ending(ExitStatus::from_raw(9)), "was killed by signal 9 (SIGKILL)");
    }

    #[test]
    fn a_group_ends_with_everything_that_its_leader_started() {
        let script = "sleep 1000 & sh -c 'trap \"\" TERM; sleep 1000 & wait' & kill -STOP $$";
        let group = ProcessGroup::start(Command::new("sh").args(["-c", script])).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        assert!(!has_ended(group.id()) && group.status().is_none());
        group.end();
        assert!(has_ended(group.id()));
    }
}

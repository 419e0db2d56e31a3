//! The terminal, for a command in a process group of its own.
//!
//! In its own group a command can be ended with everything it has started, but it is not in the terminal's foreground.
//! The kernel stops it as soon as it reads from the terminal, for instance to ask for a password. The command then gets
//! the foreground, as a shell's job would. Until then Ctrl-C and Ctrl-Z reach only pleach, which ends the command's
//! group when interrupted.

use crate::sys::terminal::set_foreground;
use crate::util::mutex::lock;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpgrp, kill_current_process_group, kill_process_group, waitid,
};
use rustix::termios::tcgetpgrp;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

/// The terminal of a process group, seen from pleach's own group.
#[derive(Debug)]
pub(super) struct Foreground {
    group: Pid,
    /// The controlling terminal, if there is one.
    terminal: Option<OwnedFd>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The group has not needed the terminal yet.
    Background,
    /// The group was stopped because it is in the background.
    Wanted,
    /// The group has the foreground.
    Given,
    /// The user stopped the group by Ctrl-Z, and pleach has stopped itself.
    Suspended,
}

impl Foreground {
    /// The terminal of the group that this child process leads, if it is shared with the child.
    pub(super) fn of(group: Pid, is_shared: bool) -> Foreground {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(CWD, "/dev/tty", flags, Mode::empty()).ok();
        let terminal = is_shared.then(open).flatten();
        Foreground { group, terminal, state: Mutex::new(State::Background) }
    }

    /// Called from time to time: gives the foreground to the group if the group needs it.
    pub(super) fn attend(&self) {
        let Some(terminal) = &self.terminal else { return };
        let mut state = lock(&self.state);
        let stopped = waitid(WaitId::Pid(self.group), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
        let signal = stopped.ok().flatten().and_then(|status| status.stopping_signal());
        match signal.map(Signal::from_named_raw) {
            Some(Some(Signal::TTIN | Signal::TTOU)) => *state = State::Wanted,
            Some(Some(Signal::TSTP)) if *state == State::Given => {
                let _ = set_foreground(terminal, getpgrp());
                // The terminal stops a job in this way. Everything after it waits until pleach is continued.
                *state = State::Suspended;
                let _ = kill_current_process_group(Signal::TSTP);
                return;
            }
            _ => {}
        }
        let is_ours = || tcgetpgrp(terminal) == Ok(getpgrp());
        let is_given = match *state {
            State::Background | State::Given => return,
            State::Wanted | State::Suspended => is_ours() && set_foreground(terminal, self.group).is_ok(),
        };
        if is_given || *state == State::Suspended {
            *state = if is_given { State::Given } else { State::Background };
            let _ = kill_process_group(self.group, Signal::CONT);
        }
    }

    /// Whether the group has the foreground: then Ctrl-C reaches it and not pleach.
    pub(super) fn is_given(&self) -> bool {
        *lock(&self.state) == State::Given
    }

    /// Takes the foreground back, if the group has it.
    pub(super) fn take_back(&self) {
        let mut state = lock(&self.state);
        if let (State::Given, Some(terminal)) = (*state, &self.terminal) {
            let _ = set_foreground(terminal, getpgrp());
        }
        *state = State::Background;
    }
}

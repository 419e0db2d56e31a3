//! The foreground process group of a terminal.

use rustix::io::{Errno, Result};
use rustix::process::Pid;
use rustix::termios::tcsetpgrp;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

/// Makes a process group the foreground group of the controlling terminal. A background process can also call this: the
/// signal SIGTTOU, which would stop the process, is blocked meanwhile.
///
/// # Errors
/// Errors of tcsetpgrp(3).
#[doc(alias = "tcsetpgrp")]
pub(crate) fn set_foreground(terminal: impl AsFd, group: Pid) -> Result<()> {
    let mut only = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the pointer points to a set that the call initializes.
    unsafe { libc::sigemptyset(only.as_mut_ptr()) };
    // SAFETY: the set was initialized above.
    unsafe { libc::sigaddset(only.as_mut_ptr(), libc::SIGTTOU) };
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `only` is initialized; `before` is written by the call.
    let blocked = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, only.as_ptr(), before.as_mut_ptr()) };
    if blocked != 0 {
        return Err(Errno::from_raw_os_error(blocked));
    }
    let result = tcsetpgrp(terminal, group);
    // SAFETY: `before` was initialized by the call that succeeded; the last pointer may be null.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    result
}

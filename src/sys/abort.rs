//! The end of a process that has no more memory or stack.
//!
//! Rust reports both, and then aborts. That is a signal, which a shell shows as a crash, and the kernel may write all
//! memory to a file.

use std::sync::atomic::{AtomicU8, Ordering};
use std::{mem, ptr};

/// The signal handler writes this, without memory of its own.
const MESSAGE: &[u8] = b"\
pleach: stopped: out of memory or stack (see `ulimit -v`, `ulimit -s`, and the limits of the service)\n\
pleach: published snapshots are not affected; raise the limit, and run the same command again\n";

/// Makes the process exit with this status when it aborts, behind a message. Without it, nothing is lost but the
/// message.
#[doc(alias = "sigaction")]
pub(crate) fn exit_with(status: u8) {
    STATUS.store(status, Ordering::Relaxed);
    let handler: extern "C" fn(libc::c_int) = end;
    // SAFETY: `sigaction` is a structure of integers, for which zeros are valid: no flags and an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    // SAFETY: `action` lives during the call, and the handler is a function with the argument that the kernel gives it
    // without SA_SIGINFO.
    let _ = unsafe { libc::sigaction(libc::SIGABRT, &raw const action, ptr::null_mut()) };
}

static STATUS: AtomicU8 = AtomicU8::new(1);

extern "C" fn end(_signal: libc::c_int) {
    // SAFETY: a signal handler may call write (signal-safety(7)), and the message lives as long as the process.
    unsafe { libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len()) };
    // SAFETY: a signal handler may call _exit, and it takes an integer.
    unsafe { libc::_exit(STATUS.load(Ordering::Relaxed).into()) }
}

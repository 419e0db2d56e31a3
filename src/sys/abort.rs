//! The end of a process that cannot go on: it has no more memory or stack, or cannot finish the report of a bug.
//!
//! Rust reports a lack of memory or stack, and then aborts. That is a signal, which a shell shows as a crash, and the
//! kernel may write all memory to a file.

use std::sync::atomic::{AtomicU8, Ordering};
use std::{mem, ptr};

/// The last lines, which need no memory of their own.
const NO_MEMORY: &[u8] = b"\
pleach: stopped: out of memory or stack (see `ulimit -v`, `ulimit -s`, and the limits of the service)\n\
pleach: published snapshots are not affected; raise the limit, and run the same command again\n";
const NO_BACKTRACE: &[u8] = b"pleach: the backtrace cannot be completed\n";

/// Makes the process exit with this status when it aborts, behind a message. Without it, nothing is lost but the
/// message.
pub(crate) fn exit_with(status: u8) {
    STATUS.store(status, Ordering::Relaxed);
    handle(libc::SIGABRT, aborted);
}

/// Makes the process exit with that status after some seconds, whatever its threads do then.
///
/// The standard library holds a lock while it makes a backtrace. If there is not enough memory for it, the report of
/// that waits for the same lock, and nothing else would end the process.
#[doc(alias = "alarm")]
pub(crate) fn exit_after(seconds: u32) {
    handle(libc::SIGALRM, alarmed);
    // SAFETY: alarm takes an integer, and the signal has a handler.
    let _ = unsafe { libc::alarm(seconds) };
}

#[doc(alias = "sigaction")]
fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: `sigaction` is a structure of integers, for which zeros are valid: no flags and an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    // SAFETY: `action` lives during the call, and the handler is a function with the argument that the kernel gives it
    // without SA_SIGINFO.
    let _ = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
}

static STATUS: AtomicU8 = AtomicU8::new(1);

/// Makes the process exit with that status now, as if Rust had found that there is no more memory.
pub(crate) fn without_memory() -> ! {
    end(NO_MEMORY)
}

extern "C" fn aborted(_signal: libc::c_int) {
    end(NO_MEMORY)
}

extern "C" fn alarmed(_signal: libc::c_int) {
    end(NO_BACKTRACE)
}

fn end(message: &'static [u8]) -> ! {
    // SAFETY: a signal handler may call write (signal-safety(7)), and the message lives as long as the process.
    unsafe { libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len()) };
    // SAFETY: a signal handler may call _exit, and it takes an integer.
    unsafe { libc::_exit(STATUS.load(Ordering::Relaxed).into()) }
}

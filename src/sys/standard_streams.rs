//! Standard streams that are closed when the process starts.
//!
//! Rust's runtime opens `/dev/null` in their place before `main`, so that no other file gets their numbers. Reading and
//! writing there succeeds, although nobody gives the input or gets the output.

use std::sync::atomic::{AtomicBool, Ordering};

static STDIN_WAS_CLOSED: AtomicBool = AtomicBool::new(false);
static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether the process was started without a standard input.
pub(crate) fn stdin_was_closed() -> bool {
    STDIN_WAS_CLOSED.load(Ordering::Relaxed)
}

/// Whether the process was started without a standard output.
pub(crate) fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}

// The C library calls the functions of this section before `main`, and thus before Rust's runtime starts.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_THE_RUNTIME: extern "C" fn() = look;

extern "C" fn look() {
    STDIN_WAS_CLOSED.store(is_closed(libc::STDIN_FILENO), Ordering::Relaxed);
    STDOUT_WAS_CLOSED.store(is_closed(libc::STDOUT_FILENO), Ordering::Relaxed);
}

fn is_closed(descriptor: libc::c_int) -> bool {
    // SAFETY: F_GETFD takes no pointer and changes nothing. It fails only if the descriptor is not open.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) == -1 }
}

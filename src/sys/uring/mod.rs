//! `io_uring(7)`: whether this process may have a ring (`io_uring_setup(2)`), and rings for files, in `ring`.

mod ring;

pub use ring::{Done, Op, Outcome, Ring};

use rustix::io::{Errno, Result};
use std::os::fd::{FromRawFd, OwnedFd};

/// `struct io_uring_params`, of which nothing is looked at.
#[repr(C, align(8))]
struct Params([u8; 120]);

const _: () = assert!(size_of::<Params>() == 120);

/// Makes a ring of one entry and lets it go.
///
/// # Errors
/// `PERM` where `kernel.io_uring_disabled` or a seccomp filter forbids it, `NOSYS` where the kernel has none.
#[doc(alias = "io_uring_setup")]
pub fn try_ring() -> Result<()> {
    let mut params = Params([0; 120]);
    // SAFETY: the pointer leads to a whole `io_uring_params` that outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, std::ptr::from_mut(&mut params)) };
    if fd < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    // SAFETY: the call has just made this descriptor, and nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) });
    Ok(())
}

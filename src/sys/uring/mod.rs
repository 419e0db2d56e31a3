//! `io_uring(7)`: whether this process may have a ring (`io_uring_setup(2)`). `ring` has rings for files.

mod ring;

pub(crate) use ring::{Op, Outcome, Ring};

use rustix::io::{Errno, Result};
use std::os::fd::{FromRawFd, OwnedFd};

/// `struct io_uring_params`. Its fields are not used.
#[repr(C, align(8))]
struct Params([u8; 120]);

const _: () = assert!(size_of::<Params>() == 120);

/// Creates a ring with one entry and closes it.
///
/// # Errors
/// `PERM` if `kernel.io_uring_disabled` or a seccomp filter forbids it, `NOSYS` if the kernel has no io_uring.
#[doc(alias = "io_uring_setup")]
pub(crate) fn try_ring() -> Result<()> {
    let mut params = Params([0; 120]);
    // SAFETY: the pointer points to a whole `io_uring_params` that outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, std::ptr::from_mut(&mut params)) };
    if fd < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    // SAFETY: the call has just made this descriptor, and nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) });
    Ok(())
}

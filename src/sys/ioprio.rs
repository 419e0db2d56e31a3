//! The I/O priority of a thread.

use rustix::io::{Errno, Result};

/// A class of I/O priorities (`linux/ioprio.h`), with the level that pleach uses in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoPriority {
    /// Only while no other process uses the device: `IOPRIO_CLASS_IDLE`.
    Idle,
    /// After other processes: `IOPRIO_CLASS_BE`, with its lowest level.
    Low,
}

const WHO_PROCESS: libc::c_int = 1;
const CLASS_SHIFT: libc::c_int = 13;

/// Sets the I/O priority of the calling thread, and of the threads and processes that it starts later.
///
/// # Errors
/// Errors of ioprio_set(2).
#[doc(alias = "ioprio_set")]
pub(crate) fn set(priority: IoPriority) -> Result<()> {
    let value: libc::c_int = match priority {
        IoPriority::Idle => 3 << CLASS_SHIFT,
        IoPriority::Low => (2 << CLASS_SHIFT) | 7,
    };
    let this_thread: libc::c_int = 0;
    // SAFETY: ioprio_set takes three integers and no pointer.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, this_thread, value) };
    if result == 0 {
        return Ok(());
    }
    Err(std::io::Error::last_os_error().raw_os_error().map_or(Errno::INVAL, Errno::from_raw_os_error))
}

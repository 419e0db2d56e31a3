//! Transactions: `BTRFS_IOC_START_SYNC` and `BTRFS_IOC_WAIT_SYNC`.
//!
//! Sources: `include/uapi/linux/btrfs.h`, `fs/btrfs/ioctl.c`.

use rustix::io::{Errno, Result};
use rustix::ioctl::{self, Getter, Opcode, Setter, opcode};
use std::os::fd::AsFd;

const BTRFS_IOC_WAIT_SYNC: Opcode = opcode::write::<u64>(0x94, 22);
const BTRFS_IOC_START_SYNC: Opcode = opcode::read::<u64>(0x94, 24);
const _: () = assert!(BTRFS_IOC_WAIT_SYNC == 0x4008_9416);
const _: () = assert!(BTRFS_IOC_START_SYNC == 0x8008_9418);

/// Commits the running transaction and returns its number, or the number of the last one if none is running. The trees
/// on the disk have everything up to it. Every later change belongs to a transaction with a larger number. Data that
/// was written but not flushed is not waited for; its inodes change again when it is flushed.
///
/// # Errors
/// `NOTTY` on other filesystems; `ROFS` never: on a read-only mount no transaction is running.
#[doc(alias = "BTRFS_IOC_START_SYNC")]
pub(crate) fn commit(fd: impl AsFd) -> Result<u64> {
    // SAFETY: the number belongs to a 64-bit integer (checked above), and any bytes are a valid value of it.
    let start = unsafe { Getter::<BTRFS_IOC_START_SYNC, u64>::new() };
    // SAFETY: the kernel fills the integer that the request carries.
    let number = unsafe { ioctl::ioctl(&fd, start) }?;
    // SAFETY: the number belongs to a 64-bit integer (checked above), and the kernel only reads it.
    let wait = unsafe { Setter::<BTRFS_IOC_WAIT_SYNC, u64>::new(number) };
    // SAFETY: the request carries the integer.
    match unsafe { ioctl::ioctl(&fd, wait) } {
        // A transaction that was committed before is not known any more.
        Ok(()) | Err(Errno::INVAL) => Ok(number),
        Err(errno) => Err(errno),
    }
}

//! Temporary names: `PREFIX` PID `.` NUMBER, both in hexadecimal, so that a later run knows whose they were.

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::{Errno, Result};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls `make` with temporary names until one is free: an earlier run with our process id may have left some.
pub(crate) fn under_temporary_name<T>(prefix: &str, mut make: impl FnMut(&str) -> Result<T>) -> Result<(String, T)> {
    loop {
        let name = name(prefix);
        match make(&name) {
            Ok(made) => return Ok((name, made)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// A temporary name that this process has not used.
fn name(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}{:x}.{:x}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Moves what has a temporary name to its own. Without `replaces` nothing that has come there meanwhile is replaced (`EXIST`).
pub(crate) fn put(dir: BorrowedFd<'_>, temporary: &str, name: &[u8], replaces: bool) -> Result<()> {
    if replaces {
        return rustix::fs::renameat(dir, temporary, dir, name);
    }
    match rustix::fs::renameat_with(dir, temporary, dir, name, RenameFlags::NOREPLACE) {
        // Some filesystems do not know the flag.
        Err(Errno::INVAL | Errno::NOSYS) => match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => rustix::fs::renameat(dir, temporary, dir, name),
            Err(errno) => Err(errno),
        },
        result => result,
    }
}

//! The file aside: made beside the destination under a temporary name, renamed over it at the end, taken away otherwise.
//!
//! Its maker holds a lock on it. So what a killed run left is told from what another run is making: the lock dies with
//! its process.

use super::destination::Destination;
use super::keep;
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::shutdown;
use crate::staging;
use crate::status::Status;
use crate::text;
use crate::walk::Names;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

/// The beginning of temporary names.
const TEMPORARY: &str = ".pleach-put.";

/// The file that is being made.
pub(super) struct Staging {
    dir: OwnedFd,
    name: String,
    file: OwnedFd,
    placed: bool,
}

impl Staging {
    /// Takes away what killed runs left in the destination's directory, and makes a new file there.
    pub(super) fn begin(destination: &Destination, monitor: &dyn Monitor) -> Result<Staging> {
        let failed = |errno| Error::io("make a file beside", &destination.shown, errno);
        let dir = destination.dir.try_clone().map_err(|error| Error::failed("make a file").because(error))?;
        clear(dir.as_fd(), monitor);
        let (name, file) = create_locked(dir.as_fd(), keep::first_mode(destination)).map_err(failed)?;
        Ok(Staging { dir, name, file, placed: false })
    }

    /// The file, open for reading and writing.
    pub(super) fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Renames it over the destination, and has the directory written to the disk.
    pub(super) fn put(&mut self, destination: &Destination) -> Result<()> {
        let (dir, name) = (&self.dir, destination.name.as_slice());
        // Where nothing was, what came there meanwhile is not what was to be replaced.
        staging::put(dir.as_fd(), &self.name, name, destination.present.is_some()).map_err(|errno| {
            let error = Error::io("replace", &destination.shown, errno);
            match errno {
                Errno::EXIST => error.hint("somebody else created it meanwhile; it was not touched"),
                Errno::BUSY => error.hint("something is mounted there; the file is unchanged"),
                _ => error.hint("the file is unchanged"),
            }
        })?;
        self.placed = true;
        let _ = flock(&self.file, FlockOperation::Unlock);
        shutdown::sync_directory(&self.dir).map_err(|errno| {
            let error = Error::io("have the directory written to the disk for", &destination.shown, errno);
            error.hint("the new content is in place, but the machine should not lose power now")
        })
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.placed {
            // What cannot be removed now, the next run removes.
            let _ = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty());
        }
    }
}

/// A new file under a name of its own, with the lock on it.
fn create_locked(dir: BorrowedFd<'_>, mode: Mode) -> rustix::io::Result<(String, OwnedFd)> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    loop {
        let made = staging::under_temporary_name(TEMPORARY, |name| rustix::fs::openat(dir, name, flags, mode));
        let (name, file) = made?;
        // Another run may just be taking it for a leftover. Some filesystems have no locks: there, what a killed run leaves stays.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            let _ = rustix::fs::unlinkat(dir, &name, AtFlags::empty());
            continue;
        }
        match (Status::at(dir, name.as_bytes()), Status::of(&file)?) {
            (Ok(named), made) if named.is_same_inode(&made) => return Ok((name, file)),
            (Ok(_) | Err(Errno::NOENT), _) => {}
            (Err(errno), _) => return Err(errno),
        }
    }
}

/// Removes the files of runs that are no more. Whatever stands in the way of that is no obstacle to this run.
fn clear(dir: BorrowedFd<'_>, monitor: &dyn Monitor) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(listed) = rustix::fs::openat(dir, c".", flags, Mode::empty()) else { return };
    let (names, _) = Names::list(&listed, |name, is_directory| !is_directory && staging::is_temporary(name, TEMPORARY));
    for name in (0..names.batches()).flat_map(|batch| names.batch(batch)) {
        let Some(_locked) = abandoned(dir, name.bytes) else { continue };
        if rustix::fs::unlinkat(dir, name.bytes, AtFlags::empty()).is_ok() {
            let name = text::escape(OsStr::from_bytes(name.bytes));
            monitor.detail(&format!("removed {name}, which a killed run had left"));
        }
    }
}

/// A file of which nobody held the lock: now it is held here.
fn abandoned(dir: BorrowedFd<'_>, name: &[u8]) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Status::at(dir, name).ok().filter(|status| status.file_type() == FileType::RegularFile)?;
    let file = rustix::fs::openat(dir, name, flags, Mode::empty()).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok().then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_command_are_taken_for_leftovers() {
        assert!(staging::is_temporary(b".pleach-put.1f.0", TEMPORARY));
        for name in [".pleach-put.", ".pleach-put.1f", ".pleach-put.1f.", ".pleach-put.1f.0.1", ".pleach-put.x.0", "a"]
        {
            assert!(!staging::is_temporary(name.as_bytes(), TEMPORARY), "{name}");
        }
    }
}

//! The repository's lock.

use super::dir::Dir;
use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// The right to change a repository, until it is dropped. It is an flock(2) lock, which the kernel releases when the
/// process ends.
#[derive(Debug)]
pub(crate) struct Lock {
    pub(super) file: File,
    /// Whether the filesystem has locks. Without locks, nothing keeps two runs apart.
    pub(super) is_held: bool,
}

impl Lock {
    pub(super) fn take(control: &Dir) -> Result<Lock> {
        let mut file = control.file("lock", OFlags::RDWR | OFlags::CREATE, Mode::RUSR | Mode::WUSR)?;
        let is_held = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => true,
            Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK | Errno::INVAL) => false,
            Err(Errno::WOULDBLOCK) => return Err(Self::held(control, file)),
            Err(errno) => return Err(Error::io("lock", control.join("lock"), errno)),
        };
        // The process id is only for the message of another run; nothing relies on it.
        let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
        Ok(Lock { file, is_held })
    }

    fn held(control: &Dir, file: File) -> Error {
        let mut text = String::new();
        let _ = file.take(32).read_to_string(&mut text);
        let holder = match text.trim().parse::<u32>() {
            Ok(process) if Path::new(&format!("/proc/{process}")).exists() => {
                format!("process {process} works on it; wait until it ends")
            }
            // The process in the file may have ended: a process that it started can have the lock.
            _ => "another run works on it; wait until it ends".to_string(),
        };
        let repository = control.path().parent().unwrap_or(control.path());
        Error::new(ErrorKind::Locked, "lock the repository").at(repository).hint(holder)
    }
}

impl Drop for Lock {
    /// Closing the file is not enough. If the caller of this library started another process meanwhile, that process
    /// holds the file open until its exec, and would hold the lock with it.
    fn drop(&mut self) {
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

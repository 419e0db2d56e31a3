//! Unnamed files for data that does not fit into memory. The kernel deletes them when they are closed, also if the run
//! is killed.

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::{Errno, Result};
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;

/// Where such files are.
#[derive(Debug)]
pub(crate) struct Spill {
    /// A directory of the filesystem that is written to. `None`: the directory for temporary files.
    dir: Option<OwnedFd>,
}

impl Spill {
    /// In this directory.
    pub(crate) fn into(dir: Option<OwnedFd>) -> Spill {
        Spill { dir }
    }

    /// Creates a file that nobody else can open and that is deleted when it is closed.
    pub(crate) fn file(&self) -> Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let temporary = std::env::temp_dir();
        let anonymous = match &self.dir {
            Some(dir) => rustix::fs::openat(dir, c".", flags | OFlags::TMPFILE, mode),
            None => rustix::fs::open(&temporary, flags | OFlags::TMPFILE, mode),
        };
        match anonymous {
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {}
            result => return result,
        }
        // Some filesystems do not support unnamed files.
        let opened_dir;
        let dir = match &self.dir {
            Some(dir) => dir,
            None => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                opened_dir = rustix::fs::open(&temporary, flags, Mode::empty())?;
                &opened_dir
            }
        };
        loop {
            let name = format!(".pleach-spill.{:016x}", RandomState::new().hash_one(std::process::id()));
            match rustix::fs::openat(dir, &name, flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW, mode) {
                Err(Errno::EXIST) => {}
                Ok(file) => return rustix::fs::unlinkat(dir, &name, AtFlags::empty()).map(|()| file),
                Err(errno) => return Err(errno),
            }
        }
    }
}

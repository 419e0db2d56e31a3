//! The floor of every tool that looks at each entry: list directories and request the status of each entry, on two
//! threads. This is all the work needed to see that a tree is unchanged.

use anyhow::Result;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, StatxFlags};
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of cores in the machine that produced the figures.
const THREADS: usize = 2;

/// Requests the status of everything in the tree `top`.
pub(super) fn run(top: &Path) -> Result<()> {
    let fd = rustix::fs::open(top, OFlags::DIRECTORY | OFlags::NOATIME | OFlags::CLOEXEC, Mode::empty())?;
    let failure = Mutex::new(None);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS).build()?;
    pool.scope(|scope| begin(scope, fd, &failure));
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

fn begin<'s>(scope: &rayon::Scope<'s>, dir: OwnedFd, failure: &'s Mutex<Option<anyhow::Error>>) {
    if let Err(error) = directory(scope, dir, failure) {
        failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

fn directory<'s>(scope: &rayon::Scope<'s>, dir: OwnedFd, failure: &'s Mutex<Option<anyhow::Error>>) -> Result<()> {
    let mut buffer = Vec::with_capacity(32 << 10);
    let mut entries = RawDir::new(&dir, buffer.spare_capacity_mut());
    let mut below = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        rustix::fs::statx(&dir, name, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
        if entry.file_type() == FileType::Directory {
            below.push(CString::from(name));
        }
    }
    let dir = Arc::new(dir);
    for name in below {
        let dir = Arc::clone(&dir);
        scope.spawn(move |scope| {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NOATIME | OFlags::CLOEXEC;
            match rustix::fs::openat(&*dir, &name, flags, Mode::empty()) {
                Ok(fd) => begin(scope, fd, failure),
                Err(errno) => {
                    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(errno.into());
                }
            }
        });
    }
    Ok(())
}

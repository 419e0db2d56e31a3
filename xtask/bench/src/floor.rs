//! The floor of a snapshot made of clones: the system calls that no such tool can leave out, and nothing else.
//!
//! For each directory: open, list, make, give its times. For each file: ask its status, open it, create its copy, clone,
//! give its times, close both. No manifest, no comparison, no check afterwards, no sync; errors end it. What pleach takes
//! beyond this is its own; what this takes is the kernel's.

use anyhow::{Context, Result};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, Timespec, Timestamps};
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Threads that read ahead, as pleach has on two cores.
pub(super) const THREADS: usize = 8;
/// Threads that create and clone at once.
const WRITERS: usize = 2;

/// Clones the tree `from` to `to`, which is made.
pub(super) fn run(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir(to)?;
    let open = |path: &Path| rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let top = Pair { source: open(from)?, copy: open(to)? };
    rustix::process::umask(Mode::empty());
    let floor = Floor { writers: Mutex::new(WRITERS), freed: Condvar::new(), failure: Mutex::new(None) };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS).build()?;
    pool.scope(|scope| floor.begin(scope, Arc::new(top)));
    match floor.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

struct Pair {
    source: OwnedFd,
    copy: OwnedFd,
}

struct Floor {
    writers: Mutex<usize>,
    freed: Condvar,
    failure: Mutex<Option<anyhow::Error>>,
}

impl Floor {
    fn begin<'s>(&'s self, scope: &rayon::Scope<'s>, dir: Arc<Pair>) {
        if let Err(error) = self.directory(scope, &dir) {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    fn directory<'s>(&'s self, scope: &rayon::Scope<'s>, dir: &Arc<Pair>) -> Result<()> {
        let status = rustix::fs::fstat(&dir.source)?;
        let mut files = Vec::new();
        for (name, file_type) in list(&dir.source)? {
            match file_type {
                FileType::Directory => {
                    let dir = Arc::clone(dir);
                    scope.spawn(move |scope| match enter(&dir, &name) {
                        Ok(below) => self.begin(scope, Arc::new(below)),
                        Err(error) => {
                            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                        }
                    });
                }
                FileType::RegularFile => {
                    let status = rustix::fs::statat(&dir.source, &name, AtFlags::SYMLINK_NOFOLLOW)?;
                    let flags = OFlags::NOFOLLOW | OFlags::NOATIME | OFlags::CLOEXEC;
                    let source = rustix::fs::openat(&dir.source, &name, flags, Mode::empty())?;
                    files.push((name, status, source));
                }
                _ => {}
            }
        }
        let free = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        drop(free);
        let made = files.iter().try_for_each(|(name, status, source)| clone(&dir.copy, name, status, source));
        *self.writers.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.freed.notify_one();
        made?;
        Ok(rustix::fs::futimens(&dir.copy, &times(&status))?)
    }
}

fn list(dir: &OwnedFd) -> Result<Vec<(CString, FileType)>> {
    let mut buffer = Vec::with_capacity(32 << 10);
    let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    Ok(names)
}

fn enter(above: &Pair, name: &CString) -> Result<Pair> {
    let open = |dir: &OwnedFd| rustix::fs::openat(dir, name, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    rustix::fs::mkdirat(&above.copy, name, Mode::from_bits_truncate(0o755))?;
    Ok(Pair { source: open(&above.source)?, copy: open(&above.copy)? })
}

fn clone(dir: &OwnedFd, name: &CString, status: &Stat, source: &OwnedFd) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, name, flags, Mode::from_bits_truncate(status.st_mode & 0o777))?;
    if status.st_size > 0 {
        rustix::fs::ioctl_ficlone(&file, source.as_fd()).with_context(|| format!("clone {name:?}"))?;
    }
    Ok(rustix::fs::futimens(&file, &times(status))?)
}

fn times(status: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: status.st_atime, tv_nsec: status.st_atime_nsec as _ },
        last_modification: Timespec { tv_sec: status.st_mtime, tv_nsec: status.st_mtime_nsec as _ },
    }
}

//! The floors of a copy: the system calls that no such tool can leave out, and the device's own time.
//!
//! The bare calls: for each directory open, list and make; for each file open, read, create, write, close both, in the
//! order of the inodes, on several threads. Where files can be cloned, a clone instead of reading and writing. No
//! metadata, no temporary names, no check, no sync. What pleach takes beyond this is its own; what this takes is the kernel's.
//!
//! The finished calls: the same, of a copy as `cp -a` makes it of which nobody ever sees half. Each file is made without a name
//! (`O_TMPFILE`), extended attributes are asked for, mode and times given, and it is linked into its place; in the end all is
//! synced. A temporary name and a rename take longer on every filesystem.
//!
//! The device alone: as many bytes in large pieces past the page cache, eight under way at once.

use anyhow::{Context, Result, anyhow};
use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags, RawDir, SeekFrom, Timespec, Timestamps};
use rustix::io::{pread, pwrite};
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// What is read at once.
const BUFFER: usize = 1 << 20;
/// Files that a thread takes at once.
const GROUP: usize = 32;
/// Pieces under way at once of the device alone.
const DEPTH: usize = 8;

/// Copies the tree `from` to `to`, which is made.
pub(crate) fn copy(from: &Path, to: &Path, threads: usize, clone: bool, finished: bool) -> Result<()> {
    let open = |path: &Path| rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    fs::create_dir(to)?;
    let top = Pair { source: open(from)?, copy: open(to)? };
    let run = Run { clone, finished, failure: Mutex::new(None) };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    pool.scope(|scope| run.directory(scope, Arc::new(top)));
    run.failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)?;
    if finished {
        rustix::fs::syncfs(open(to)?)?;
    }
    Ok(())
}

struct Pair {
    source: OwnedFd,
    copy: OwnedFd,
}

struct Run {
    clone: bool,
    finished: bool,
    failure: Mutex<Option<anyhow::Error>>,
}

impl Run {
    fn directory<'s>(&'s self, scope: &rayon::Scope<'s>, dir: Arc<Pair>) {
        self.note(self.entries(scope, &dir));
    }

    fn note(&self, done: Result<()>) {
        if let Err(error) = done {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    fn entries<'s>(&'s self, scope: &rayon::Scope<'s>, dir: &Arc<Pair>) -> Result<()> {
        let mut files = Vec::new();
        for (inode, name, file_type) in list(&dir.source)? {
            match file_type {
                FileType::Directory => {
                    let dir = Arc::clone(dir);
                    scope.spawn(move |scope| match enter(&dir, &name) {
                        Ok(below) => self.directory(scope, Arc::new(below)),
                        Err(error) => self.note(Err(error)),
                    });
                }
                FileType::RegularFile => files.push((inode, name)),
                _ => {}
            }
        }
        files.sort_unstable();
        while !files.is_empty() {
            let group = files.split_off(files.len().saturating_sub(GROUP));
            let dir = Arc::clone(dir);
            scope.spawn(move |_| {
                let mut names = group.iter().map(|(_, name)| name.as_c_str());
                self.note(names.try_for_each(|name| self.file(&dir, name).with_context(|| format!("copy {name:?}"))));
            });
        }
        Ok(())
    }

    fn file(&self, dir: &Pair, name: &CStr) -> Result<()> {
        let (from, to) = self.fill(dir, name)?;
        if !self.finished {
            return Ok(());
        }
        let status = rustix::fs::fstat(&from)?;
        rustix::fs::flistxattr(&from, &mut [0_u8; 0])?;
        rustix::fs::fchmod(&to, Mode::from_raw_mode(status.st_mode))?;
        let time = |tv_sec, nanoseconds| Timespec { tv_sec, tv_nsec: nanoseconds as _ };
        let times = Timestamps {
            last_access: time(status.st_atime, status.st_atime_nsec),
            last_modification: time(status.st_mtime, status.st_mtime_nsec),
        };
        rustix::fs::futimens(&to, &times)?;
        Ok(rustix::fs::linkat(&to, c"", &dir.copy, name, AtFlags::EMPTY_PATH)?)
    }

    /// Makes a file with the content of `name`, and with that name, unless it is to be finished first.
    fn fill(&self, dir: &Pair, name: &CStr) -> Result<(OwnedFd, OwnedFd)> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NOATIME | OFlags::CLOEXEC;
        let from = rustix::fs::openat(&dir.source, name, flags, Mode::empty())?;
        let (new, flags) = match self.finished {
            true => (c".", OFlags::TMPFILE),
            false => (name, OFlags::CREATE | OFlags::EXCL),
        };
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | flags;
        let to = rustix::fs::openat(&dir.copy, new, flags, Mode::from_bits_truncate(0o644))?;
        thread_local! {
            static MEMORY: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
        }
        match self.clone {
            true => rustix::fs::ioctl_ficlone(&to, from.as_fd())?,
            false => MEMORY.with_borrow_mut(|buffer| content(&from, &to, buffer))?,
        }
        Ok((from, to))
    }
}

fn list(dir: &OwnedFd) -> Result<Vec<(u64, CString, FileType)>> {
    let mut buffer = Vec::with_capacity(32 << 10);
    let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push((entry.ino(), entry.file_name().to_owned(), entry.file_type()));
        }
    }
    Ok(names)
}

fn enter(above: &Pair, name: &CString) -> Result<Pair> {
    let open = |dir: &OwnedFd| rustix::fs::openat(dir, name, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    rustix::fs::mkdirat(&above.copy, name, Mode::from_bits_truncate(0o755))?;
    Ok(Pair { source: open(&above.source)?, copy: open(&above.copy)? })
}

fn content(from: &OwnedFd, to: &OwnedFd, buffer: &mut [u8]) -> Result<()> {
    let got = pread(from, &mut *buffer, 0)?;
    if got < buffer.len() {
        return write(to, &buffer[..got], 0);
    }
    // Too large for one buffer, so it is worth to ask where its data is.
    let mut end = 0;
    while let Ok(begin) = rustix::fs::seek(from, SeekFrom::Data(end)) {
        end = rustix::fs::seek(from, SeekFrom::Hole(begin))?;
        let mut at = begin;
        while at < end {
            let length = buffer.len().min((end - at) as usize);
            match pread(from, &mut buffer[..length], at)? {
                0 => break,
                got => write(to, &buffer[..got], at)?,
            }
            at += length as u64;
        }
    }
    Ok(rustix::fs::ftruncate(to, rustix::fs::fstat(from)?.st_size as u64)?)
}

fn write(to: &OwnedFd, bytes: &[u8], at: u64) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        done += pwrite(to, &bytes[done..], at + done as u64)?;
    }
    Ok(())
}

/// Copies the files of the directory `from` into `to`, which is made, past the page cache; or only writes as many bytes.
pub(crate) fn stream(from: &Path, to: &Path, write_only: bool) -> Result<()> {
    fs::create_dir(to)?;
    let mut pieces = Vec::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let size = entry.metadata()?.len();
        let direct = OFlags::DIRECT.bits() as i32;
        let source = File::options().read(true).custom_flags(direct).open(entry.path())?;
        let name = to.join(entry.file_name());
        let copy = File::options().write(true).create_new(true).custom_flags(direct).open(name)?;
        if size > 0 {
            rustix::fs::fallocate(&copy, FallocateFlags::empty(), 0, size)?;
        }
        let both = Arc::new((source, copy));
        pieces.extend((0..size).step_by(BUFFER).map(|at| (Arc::clone(&both), at, BUFFER.min((size - at) as usize))));
    }
    let next = AtomicUsize::new(0);
    let one_after_the_other = || -> Result<()> {
        let mut memory = vec![0x5A; BUFFER + ALIGNMENT];
        let buffer = aligned(&mut memory);
        while let Some((both, at, length)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (source, copy) = &**both;
            if !write_only {
                pread(source, &mut buffer[..*length], *at)?;
            }
            pwrite(copy, &buffer[..length.next_multiple_of(ALIGNMENT)], *at)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers = [(); DEPTH].map(|()| scope.spawn(one_after_the_other));
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!("a thread panicked"))?)
    })
}

const ALIGNMENT: usize = 4096;

/// The part of some memory that direct I/O takes.
fn aligned(memory: &mut [u8]) -> &mut [u8] {
    let begin = memory.as_ptr().align_offset(ALIGNMENT);
    &mut memory[begin..begin + BUFFER]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_memory_is_aligned_and_long_enough() {
        let mut memory = vec![0; BUFFER + ALIGNMENT];
        let buffer = aligned(&mut memory);
        assert_eq!((buffer.as_ptr().addr() % ALIGNMENT, buffer.len()), (0, BUFFER));
    }
}

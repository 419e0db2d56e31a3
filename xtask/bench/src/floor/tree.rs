//! The floor of a copy of a tree, and of a snapshot made of clones.
//!
//! For each directory: open, list, create. For each file, in the order of the inodes and on several threads: open,
//! status, create, read and write or clone, times, close both. No comparison, no manifest, no verification; the first
//! error ends the run.
//!
//! `--aside` makes files that nobody ever sees half finished, as `cp -a` should make them. Each file is created without
//! a name (`O_TMPFILE`), its extended attributes are requested, mode and times are set, and it is linked into its
//! place. At the end everything is synced.

use anyhow::{Context, Result};
use clap::Args;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom, Stat, Timespec, Timestamps};
use rustix::io::{pread, pwrite};
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The number of bytes read at once.
const BUFFER: usize = 1 << 20;
/// The number of files that a thread takes at once.
const GROUP: usize = 32;

/// What to copy, and how.
#[derive(Args)]
pub(crate) struct Options {
    /// How many threads read
    #[arg(long)]
    threads: usize,
    /// How many of them write at once
    #[arg(long)]
    writers: usize,
    /// Clone instead of reading and writing
    #[arg(long)]
    clone: bool,
    /// Make each file without a name first, and sync in the end
    #[arg(long)]
    aside: bool,
    /// The tree
    from: PathBuf,
    /// Its copy, which is made
    to: PathBuf,
}

/// Copies the tree.
pub(super) fn copy(options: &Options) -> Result<()> {
    let open = |path: &Path| rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    fs::create_dir(&options.to)?;
    let top = Pair { source: open(&options.from)?, copy: open(&options.to)? };
    rustix::process::umask(Mode::empty());
    let writers = Mutex::new(options.writers);
    let run = Run { options, writers, freed: Condvar::new(), failure: Mutex::new(None) };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(options.threads).build()?;
    pool.scope(|scope| run.directory(scope, &Arc::new(top)));
    run.failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)?;
    if options.aside {
        rustix::fs::syncfs(open(&options.to)?)?;
    }
    Ok(())
}

struct Pair {
    source: OwnedFd,
    copy: OwnedFd,
}

struct Run<'a> {
    options: &'a Options,
    /// The number of further threads that may write now.
    writers: Mutex<usize>,
    freed: Condvar,
    failure: Mutex<Option<anyhow::Error>>,
}

impl Run<'_> {
    fn directory<'s>(&'s self, scope: &rayon::Scope<'s>, dir: &Arc<Pair>) {
        self.note(self.entries(scope, dir));
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
                        Ok(below) => self.directory(scope, &Arc::new(below)),
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
            scope.spawn(move |_| self.note(self.group(&dir, &group)));
        }
        Ok(())
    }

    fn group(&self, dir: &Pair, group: &[(u64, CString)]) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NOATIME | OFlags::CLOEXEC;
        let opened = group.iter().map(|(_, name)| {
            let source = rustix::fs::openat(&dir.source, name, flags, Mode::empty())?;
            Ok((name, rustix::fs::fstat(&source)?, source))
        });
        let opened = opened.collect::<Result<Vec<_>>>()?;
        let free = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        drop(free);
        let made = opened.iter().try_for_each(|(name, status, source)| {
            self.file(dir, name, status, source).with_context(|| format!("copy {name:?}"))
        });
        *self.writers.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.freed.notify_one();
        made
    }

    fn file(&self, dir: &Pair, name: &CStr, status: &Stat, from: &OwnedFd) -> Result<()> {
        let aside = self.options.aside;
        let (new, flags) = if aside { (c".", OFlags::TMPFILE) } else { (name, OFlags::CREATE | OFlags::EXCL) };
        let mode = Mode::from_bits_truncate(status.st_mode & 0o777);
        let to = rustix::fs::openat(&dir.copy, new, OFlags::WRONLY | OFlags::CLOEXEC | flags, mode)?;
        thread_local! {
            static MEMORY: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
        }
        if status.st_size > 0 {
            match self.options.clone {
                true => rustix::fs::ioctl_ficlone(&to, from.as_fd())?,
                false => MEMORY.with_borrow_mut(|buffer| content(from, &to, status.st_size as u64, buffer))?,
            }
        }
        if aside {
            rustix::fs::flistxattr(from, &mut [0_u8; 0])?;
            rustix::fs::fchmod(&to, Mode::from_raw_mode(status.st_mode))?;
        }
        rustix::fs::futimens(&to, &times(status))?;
        if aside {
            rustix::fs::linkat(&to, c"", &dir.copy, name, AtFlags::EMPTY_PATH)?;
        }
        Ok(())
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

fn content(from: &OwnedFd, to: &OwnedFd, size: u64, buffer: &mut [u8]) -> Result<()> {
    let got = pread(from, &mut *buffer, 0)?;
    if got < buffer.len() {
        return write(to, &buffer[..got], 0);
    }
    // The file is too large for one buffer, so it is worth asking where its data is.
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
    Ok(rustix::fs::ftruncate(to, size)?)
}

fn write(to: &OwnedFd, bytes: &[u8], at: u64) -> Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        done += pwrite(to, &bytes[done..], at + done as u64)?;
    }
    Ok(())
}

fn times(status: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: status.st_atime, tv_nsec: status.st_atime_nsec as _ },
        last_modification: Timespec { tv_sec: status.st_mtime, tv_nsec: status.st_mtime_nsec as _ },
    }
}

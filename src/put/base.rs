//! The base: the version that the new file shares with, as of one moment.
//!
//! The base is cloned into an unnamed file that nobody else can write to. Shared data comes from this clone, so it
//! cannot change after it was compared. A fresh clone has no pages in memory, so reading it means reading from the
//! disk. The base's own file often is in memory; pleach reads it instead as long as it provably has not changed since
//! it was cloned. The proof is the same size, mtime and ctime after each read, and a ctime that a later change could
//! not have set again. Once that proof fails, or if it is impossible, the frozen clone is read.

use super::destination::Destination;
use super::job::{Failure, Job, Options};
use crate::content::copy::{CloneError, Reason, Strategy};
use crate::content::rewrite;
use crate::error::{Error, Result};
use crate::extents::places::Places;
use crate::fs::filesystem::{self, Kind};
use crate::fs::pread;
use crate::fs::status::{Status, Time};
use crate::sys::reflink;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How far ahead of the comparison the base is prefetched, in bytes.
const AHEAD: u64 = 8 << 20;

/// A file to share with, before it is frozen.
#[derive(Debug)]
pub(super) enum Found<'a> {
    /// The present file at the destination, which disappears when it is replaced.
    Present(BorrowedFd<'a>),
    /// Another file, which stays.
    Other(OwnedFd),
}

impl Found<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Found::Present(fd) => *fd,
            Found::Other(fd) => fd.as_fd(),
        }
    }
}

/// The file to share with, if there is one.
pub(super) fn open<'a>(destination: &'a Destination, options: &Options) -> Result<Option<Found<'a>>> {
    let Some(path) = &options.base else {
        // An empty file has nothing to share.
        let present = destination.present.as_ref().filter(|present| present.status.size > 0);
        return Ok(present.map(|present| Found::Present(present.fd.as_fd())));
    };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(CWD, path, flags, Mode::empty());
    let fd = fd.map_err(|errno| Error::io("open the base", path, errno))?;
    let status = Status::of(&fd).map_err(|errno| Error::io("read the status of the base", path, errno))?;
    if status.file_type() != FileType::RegularFile {
        return Err(Error::usage("share with").at(path).hint("only a regular file can be the base"));
    }
    Ok(Some(match &destination.present {
        Some(present) if present.status.is_same_inode(&status) => Found::Present(present.fd.as_fd()),
        _ => Found::Other(fd),
    }))
}

/// The base, frozen.
pub(super) struct Base<'a> {
    /// The file it was cloned from.
    found: &'a Found<'a>,
    /// The file's status when it was cloned, as long as the file may be read instead of the clone.
    live: Option<Status>,
    frozen: OwnedFd,
    size: u64,
    /// The places that only the replaced file holds, if the filesystem frees extents only as a whole.
    alone: Option<Places>,
    window: Window,
    /// The offset up to which it was prefetched.
    asked: u64,
    /// The number of bytes read from it.
    read: u64,
}

/// Some bytes of the base.
#[derive(Default)]
struct Window {
    bytes: Vec<u8>,
    start: u64,
}

impl<'a> Base<'a> {
    /// Freezes the base. Returns the reason if that is impossible, so that nothing can be shared with it.
    ///
    /// # Errors
    /// Failures that a copy would meet too.
    pub(super) fn freeze(
        found: &'a Found<'a>,
        destination: &Destination,
        job: &Job<'_>,
    ) -> Result<std::result::Result<Base<'a>, Reason>> {
        let shown = || job.options.base.as_ref().unwrap_or(&destination.shown);
        let look = |errno| Error::io("read the status of", shown(), errno);
        let fd = found.fd();
        let now = Time::now();
        let before = Status::of(fd).map_err(look)?;
        let frozen = match filesystem::unnamed(&destination.dir) {
            Ok(frozen) => frozen,
            // No known filesystem has reflinks but no unnamed files.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => return Ok(Err(Reason::NoReflink)),
            Err(errno) => return Err(Error::io("make a file beside", &destination.shown, errno)),
        };
        // Mapped before the clone, because afterwards all extents are shared.
        let is_replaced = matches!(found, Found::Present(_)) && before.nlink == 1;
        let mut alone = (job.kind == Kind::Btrfs && is_replaced).then(|| Places::new(job.space));
        if let Some(places) = &mut alone {
            if places.add(fd, |extent| !extent.is_shared()).is_err() {
                alone = None;
            } else {
                places.sort();
            }
        }
        match Strategy::new().clone(fd, before.dev, &frozen) {
            Ok(()) => {}
            Err(CloneError::Copy(reason)) => return Ok(Err(reason)),
            Err(CloneError::Failed(errno)) => return Err(Error::io("clone", shown(), errno)),
        }
        let size = Status::of(&frozen).map_err(look)?.size;
        let after = Status::of(fd).map_err(look)?;
        // A second change in the same clock tick as the last change before the clone would not show.
        let can_tell = matches!(job.kind, Kind::Xfs | Kind::Btrfs) && after.ctime < now;
        let live = (can_tell && after.is_untouched_since(&before)).then_some(after);
        Ok(Ok(Base { found, live, frozen, size, alone, window: Window::default(), asked: 0, read: 0 }))
    }

    /// Makes the empty file `out` a clone of the base. Returns the reason if that is refused.
    pub(super) fn clone_to(self, out: &OwnedFd) -> std::result::Result<Base<'a>, Reason> {
        match reflink::clone(&self.frozen, out) {
            Ok(()) => Ok(self),
            // The new file has the copy-on-write setting of the present file; the base has the other.
            Err(Errno::INVAL) => Err(Reason::NoCow),
            Err(_) => Err(Reason::Failed),
        }
    }

    /// Its clone.
    pub(super) fn frozen(&self) -> BorrowedFd<'_> {
        self.frozen.as_fd()
    }

    /// The file it was cloned from, which others may write to.
    pub(super) fn source(&self) -> BorrowedFd<'a> {
        self.found.fd()
    }

    /// Its size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The number of bytes read from it.
    pub(super) fn read(&self) -> u64 {
        self.read
    }

    /// The bytes from an offset on: `want` bytes, or as many as the base has. The bytes read last are not read again.
    pub(super) fn window(&mut self, at: u64, want: usize) -> std::result::Result<&[u8], Failure> {
        let want = want.min(usize::try_from(self.size.saturating_sub(at)).unwrap_or(usize::MAX));
        let end = self.window.start + self.window.bytes.len() as u64;
        if at < self.window.start || at + want as u64 > end {
            let mut bytes = std::mem::take(&mut self.window.bytes);
            bytes.resize(want, 0);
            self.ask(at, at + want as u64);
            let got = self.read_at(&mut bytes, at)?;
            bytes.truncate(got);
            self.window = Window { bytes, start: at };
        }
        let from = (at - self.window.start) as usize;
        let bytes = self.window.bytes.get(from..).unwrap_or_default();
        Ok(&bytes[..want.min(bytes.len())])
    }

    /// Reads from an offset on until the buffer is full or the base ends. The bytes are always those of the frozen
    /// clone.
    pub(super) fn read_at(&mut self, buffer: &mut [u8], at: u64) -> std::result::Result<usize, Failure> {
        if let Some(status) = &self.live {
            let got = pread::read_full(self.source(), buffer, at);
            let is_untouched = Status::of(self.source()).is_ok_and(|now| now.is_untouched_since(status));
            if let (Ok(got), true) = (got, is_untouched) {
                self.read += got as u64;
                return Ok(got);
            }
            self.live = None;
            self.asked = at;
            self.ask(at, at + buffer.len() as u64);
        }
        let got = pread::read_full(&self.frozen, buffer, at).map_err(Failure::Base)?;
        self.read += got as u64;
        Ok(got)
    }

    /// Lets the kernel read ahead of sequential reads.
    fn ask(&mut self, at: u64, end: u64) {
        let to = (end + AHEAD).min(self.size);
        if at > self.asked || end + AHEAD < self.asked {
            self.asked = at;
        }
        // Not for every small step.
        if to >= self.asked + AHEAD / 8 || (to == self.size && to > self.asked) {
            let file = if self.live.is_some() { self.source() } else { self.frozen() };
            pread::prefetch(file, self.asked..to);
            self.asked = to;
        }
    }

    /// On a filesystem that frees extents only as a whole: rewrites parts of the new file that would keep mostly unused
    /// extents of the replaced file.
    pub(super) fn release_extents(&self, out: &OwnedFd, size: u64, job: &Job<'_>) -> std::result::Result<(), Failure> {
        let Some(alone) = &self.alone else { return Ok(()) };
        Ok(rewrite::release(out.as_fd(), size, self.frozen.as_fd(), alone, job.monitor)?)
    }
}

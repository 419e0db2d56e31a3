//! Many small files at once: each is a state machine from its opening to its closing, and one thread has 64 of them under
//! way. That is what a cold device wants, for which a thread that opens and reads one file after the other waits each time.
//!
//! Only what may wait goes through the ring. The status of a file that was just opened is in memory, and statx(2) takes less than
//! handing it to one of the ring's workers, which is what the kernel does with it. It does so too with what makes a file, and
//! workers that make files in one directory only wait for each other: that is the caller's, one at a time.

use super::super::{HashTee, judge};
use super::with_ring;
use crate::content::copy::content::{Copied, CopyError, Request};
use crate::content::copy::engine::Engine;
use crate::content::copy::engines::Halt;
use crate::content::copy::strategy::Strategy;
use crate::content::copy::{data, refusals};
use crate::fs::status::Status;
use crate::monitor::{Amount, Event, Monitor};
use crate::sys::uring::{Op, Outcome, Ring};
use rustix::fs::{FileType, Mode, OFlags, ftruncate};
use rustix::io::Errno;
use std::cell::Cell;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How many files are under way.
const SLOTS: usize = 64;
/// How much is read at once of each, at most and at least. Buffers as long as the files need them: the kernel pins each page
/// of them, which for 8 MiB a thread takes as long as to copy some hundred files.
const LONGEST: usize = 128 << 10;
const SHORTEST: usize = 4 << 10;
/// Larger files, and those with holes, are copied one at a time.
const LARGE: u64 = 1 << 20;

thread_local! {
    static RING: Cell<Option<Ring>> = const { Cell::new(None) };
}

/// A file to be copied. The directory stays open as long as it lasts.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Its directory.
    pub dir: BorrowedFd<'a>,
    /// Its name in it; a link is not followed.
    pub name: &'a [u8],
    /// How large it is, as far as that is known: only how it is read depends on it.
    pub size: u64,
}

/// A source.
#[derive(Clone, Copy, Debug)]
pub struct Opened<'a> {
    /// It itself, open for reading.
    pub fd: BorrowedFd<'a>,
    /// Its status after it was opened, before it was read.
    pub status: &'a Status,
}

/// Why there is no copy. Nothing was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// The source cannot be opened.
    Open(Errno),
    /// The source is no regular file.
    NotRegular(Status),
}

/// Who wants files copied: hears of each by its number in the list, in any order.
pub trait Files {
    /// What a copy is made in.
    type Copy: AsFd;

    /// A source is open: makes the empty file that gets its content, open for reading and writing. Without one nothing more
    /// is told of it.
    fn opened(&mut self, number: usize, source: Opened<'_>) -> Option<Self::Copy>;

    /// The content is there, or is not. Metadata and the final name are the caller's.
    fn copied(&mut self, number: usize, source: Opened<'_>, copy: Self::Copy, copied: Result<Copied, CopyError>);

    /// There is no copy.
    fn failed(&mut self, number: usize, error: FileError);
}

/// Copies these files, the first ones first. When the monitor asks to stop, those under way are finished and no others begun.
///
/// # Errors
/// Why io_uring is not to be had; the ladder then knows, and the monitor was told once. Files of which nothing was told are
/// not copied.
pub fn files<F: Files>(
    wanted: &[Wanted<'_>],
    files: &mut F,
    ladder: &Strategy,
    request: &Request,
    monitor: &dyn Monitor,
) -> Result<(), Errno> {
    let largest = wanted.iter().map(|wanted| wanted.size).max().unwrap_or(0);
    let buffer = usize::try_from(largest).unwrap_or(LONGEST).clamp(SHORTEST, LONGEST).next_power_of_two();
    let lend = |ring: &mut Ring| {
        let buffer = ring.buffer_length();
        Work { wanted, files, ladder, request, monitor, buffer }.run(ring)
    };
    with_ring(&RING, SLOTS, buffer, lend).inspect_err(|errno| {
        if ladder.refused(Engine::Uring, 0, *errno) {
            let why = refusals::describe(Engine::Uring, *errno);
            monitor.event(Event::EngineRefused { engine: &Engine::Uring.to_string(), why: &why, next: None });
        }
    })
}

struct Work<'a, 'b, F> {
    wanted: &'a [Wanted<'a>],
    files: &'b mut F,
    ladder: &'b Strategy,
    request: &'b Request,
    monitor: &'b dyn Monitor,
    /// How much goes into a slot's.
    buffer: usize,
}

/// A file under way.
struct File<C> {
    number: usize,
    /// Opened without a change of its access time, which only its owner and root may.
    is_silent: bool,
    /// Both sides, once they are open.
    sides: Option<Sides<C>>,
    /// What is in the buffer lies here, so much of it was read, and so much written.
    at: u64,
    got: usize,
    put: usize,
    is_read: bool,
    has_ended: bool,
    passing: Option<Box<HashTee>>,
}

struct Sides<C> {
    source: OwnedFd,
    status: Status,
    copy: C,
}

impl<'a, F: Files> Work<'a, '_, F> {
    fn run(&mut self, ring: &mut Ring) -> Result<(), Errno> {
        let mut slots: Vec<Option<File<F::Copy>>> = (0..ring.slots()).map(|_| None).collect();
        let mut numbers = 0..self.wanted.len();
        let mut free: Vec<usize> = (0..slots.len()).rev().collect();
        let mut waiting: Vec<usize> = Vec::new();
        loop {
            while !self.monitor.is_cancelled()
                && let Some(slot) = free.pop()
            {
                let Some(number) = numbers.next() else {
                    free.push(slot);
                    break;
                };
                slots[slot] = Some(File::new(number, self.request.hashed));
                waiting.push(slot);
            }
            let next = |slot: usize| slots[slot].as_ref().and_then(|file| self.next(file, slot));
            let done = ring.turn(waiting.drain(..).filter_map(next))?;
            if done.is_empty() && free.len() == slots.len() {
                return Ok(());
            }
            for done in done {
                let slot = done.slot;
                let Some(file) = slots.get_mut(slot).and_then(Option::take) else { continue };
                match self.step(ring, slot, file, done.outcome) {
                    Some(file) => {
                        slots[slot] = Some(file);
                        waiting.push(slot);
                    }
                    None => free.push(slot),
                }
            }
        }
    }

    /// A file's next request.
    fn next<'f>(&self, file: &'f File<F::Copy>, slot: usize) -> Option<Op<'f>>
    where
        'a: 'f,
    {
        let Some(Sides { source, status, copy }) = &file.sides else { return self.open(file, slot) };
        Some(match file.is_read {
            false => {
                let into = file.got..file.length(self.buffer, status.size);
                Op::Read { slot, file: source.as_fd(), into, at: file.at + file.got as u64 }
            }
            true => Op::Write { slot, file: copy.as_fd(), from: file.put..file.got, at: file.at + file.put as u64 },
        })
    }

    fn open(&self, file: &File<F::Copy>, slot: usize) -> Option<Op<'a>> {
        let wanted = self.wanted.get(file.number)?;
        let access = if file.is_silent { OFlags::NOATIME } else { OFlags::empty() };
        Some(Op::Open {
            slot,
            dir: wanted.dir,
            // No name that a directory has holds a NUL: one that does is not there.
            name: CString::new(wanted.name).unwrap_or_default(),
            flags: OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | access,
            mode: Mode::empty(),
        })
    }

    /// Takes what came of a file's request. The file, if it goes on.
    fn step(
        &mut self,
        ring: &Ring,
        slot: usize,
        mut file: File<F::Copy>,
        outcome: rustix::io::Result<Outcome>,
    ) -> Option<File<F::Copy>> {
        let Some(sides) = file.sides.take() else { return self.source_opened(file, outcome) };
        match self.moved(ring.buffer(slot), &mut file, &sides, outcome) {
            Moved::On => {
                file.sides = Some(sides);
                Some(file)
            }
            Moved::Over(copied) => {
                self.copied(file.number, sides, copied);
                None
            }
            Moved::Alone(request) => {
                self.alone(file.number, sides, &request);
                None
            }
        }
    }

    fn source_opened(
        &mut self,
        mut file: File<F::Copy>,
        outcome: rustix::io::Result<Outcome>,
    ) -> Option<File<F::Copy>> {
        let opened = match outcome {
            Ok(Outcome::Opened(source)) => Status::of(&source).map(|status| (source, status)),
            Ok(Outcome::Moved(_)) => Err(Errno::IO),
            Err(Errno::INTR) => return Some(file),
            Err(Errno::PERM) if file.is_silent => {
                file.is_silent = false;
                return Some(file);
            }
            Err(errno) => Err(errno),
        };
        let (source, status) = match opened {
            Ok((_, status)) if status.file_type() != FileType::RegularFile => {
                self.files.failed(file.number, FileError::NotRegular(status));
                return None;
            }
            Ok(opened) => opened,
            Err(errno) => {
                self.files.failed(file.number, FileError::Open(errno));
                return None;
            }
        };
        let copy = self.files.opened(file.number, Opened { fd: source.as_fd(), status: &status })?;
        let sides = Sides { source, status, copy };
        let Status { size, allocated, .. } = status;
        if size > LARGE || allocated < size {
            self.alone(file.number, sides, self.request);
            return None;
        }
        if size > self.buffer as u64 {
            // As in `data`: or XFS reserves more for each further write.
            if let Err(errno) = ftruncate(&sides.copy, size) {
                self.copied(file.number, sides, Err(CopyError::Destination(errno)));
                return None;
            }
        }
        file.sides = Some(sides);
        Some(file)
    }

    /// Copies a file by itself.
    fn alone(&mut self, number: usize, sides: Sides<F::Copy>, request: &Request) {
        let Sides { source, status, copy } = &sides;
        let copied = data(source.as_fd(), status, copy.as_fd(), self.ladder, request, self.monitor);
        self.copied(number, sides, copied);
    }

    fn copied(&mut self, number: usize, sides: Sides<F::Copy>, copied: Result<Copied, CopyError>) {
        let Sides { source, status, copy } = sides;
        self.files.copied(number, Opened { fd: source.as_fd(), status: &status }, copy, copied);
    }

    fn moved(
        &self,
        buffer: &[u8],
        file: &mut File<F::Copy>,
        sides: &Sides<F::Copy>,
        outcome: rustix::io::Result<Outcome>,
    ) -> Moved {
        let bytes = match outcome {
            Ok(Outcome::Moved(bytes)) => bytes,
            Err(Errno::INTR) => return Moved::On,
            Err(errno) => return self.trouble(file, sides, errno),
            Ok(Outcome::Opened(_)) => return self.trouble(file, sides, Errno::IO),
        };
        let size = sides.status.size;
        if file.is_read {
            if bytes == 0 {
                return self.trouble(file, sides, Errno::NOSPC);
            }
            file.put += bytes;
            self.monitor.advance(Amount { files: 0, bytes: bytes as u64 });
        } else {
            file.got += bytes;
            file.has_ended = bytes == 0;
            file.is_read = file.has_ended || file.got == file.length(self.buffer, size);
            if let (true, Some(passing)) = (file.is_read, &mut file.passing) {
                let bytes = buffer.get(..file.got).unwrap_or_default();
                if let Err(errno) = passing.take(bytes, file.at, self.monitor) {
                    return self.trouble(file, sides, errno);
                }
            }
        }
        if !file.is_read || file.put < file.got {
            return Moved::On;
        }
        file.at += file.got as u64;
        if file.at < size && !file.has_ended {
            (file.got, file.put, file.is_read) = (0, 0, false);
            return Moved::On;
        }
        if file.has_ended
            && size > self.buffer as u64
            && let Err(errno) = ftruncate(&sides.copy, file.at)
        {
            return self.trouble(file, sides, errno);
        }
        let mut copied = Copied { data: file.at, read: file.at, ..Copied::by(Engine::Uring) };
        if let Some(passing) = file.passing.take() {
            copied.hash = passing.finish(file.at, self.monitor).ok();
        }
        copied.reason = self.ladder.known(sides.status.dev).and_then(Result::err);
        Moved::Over(Ok(copied))
    }

    /// A read or a write failed: what is invalid for the ring goes without it, from the beginning.
    fn trouble(&self, file: &File<F::Copy>, sides: &Sides<F::Copy>, errno: Errno) -> Moved {
        if matches!(judge(errno), Halt::Refused(_)) && ftruncate(&sides.copy, 0).is_ok() {
            return Moved::Alone(Request { engine: Some(Engine::Buffered), ..*self.request });
        }
        Moved::Over(Err(if file.is_read { CopyError::Destination(errno) } else { CopyError::Source(errno) }))
    }
}

/// How a file goes on that was read from or written to.
enum Moved {
    /// By its next request.
    On,
    /// Its copy has come to an end.
    Over(Result<Copied, CopyError>),
    /// Without the ring.
    Alone(Request),
}

impl<C> File<C> {
    fn new(number: usize, hashed: bool) -> Self {
        File {
            number,
            is_silent: true,
            sides: None,
            at: 0,
            got: 0,
            put: 0,
            is_read: false,
            has_ended: false,
            passing: hashed.then(Box::default),
        }
    }

    /// How much of a file of this size is to be read into a buffer of this length.
    fn length(&self, buffer: usize, size: u64) -> usize {
        size.saturating_sub(self.at).min(buffer as u64) as usize
    }
}

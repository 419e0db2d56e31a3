//! Many small files at once: each is a state machine from its opening to its closing, and one thread has 64 of them under
//! way. That is what a cold device wants, for which a thread that opens and reads one file after the other waits each time.
//!
//! Only what may wait goes through the ring. The status of a file that was just opened is in memory, and statx(2) takes less than
//! handing it to one of the ring's workers, which is what the kernel does with it.

use super::super::{Passing, judge};
use super::with_ring;
use crate::copy::content::{Copied, CopyError, Request};
use crate::copy::engine::Engine;
use crate::copy::engines::Halt;
use crate::copy::ladder::Ladder;
use crate::copy::{data, refusals};
use crate::monitor::{Amount, Monitor};
use crate::status::Status;
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

/// A file to be copied, by name and directory on either side. The directories stay open as long as it lasts.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The source's directory.
    pub source_dir: BorrowedFd<'a>,
    /// The source's name in it; a link is not followed.
    pub source: &'a [u8],
    /// How large it is, as far as that is known: only how it is read depends on it.
    pub size: u64,
    /// The copy's directory.
    pub destination_dir: BorrowedFd<'a>,
    /// The copy's name in it, temporary as a rule; nothing may be there.
    pub destination: &'a [u8],
}

/// A file of which both sides are open.
#[derive(Clone, Copy, Debug)]
pub struct Made<'a> {
    /// The source, open for reading.
    pub source: BorrowedFd<'a>,
    /// The source's status after it was opened, before it was read.
    pub status: &'a Status,
    /// The copy, open for reading and writing, mode 0600 where it was made.
    pub destination: BorrowedFd<'a>,
}

/// Why there is no copy. Nothing was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// The source cannot be opened.
    Open(Errno),
    /// The source is no regular file.
    NotRegular(Status),
    /// The copy cannot be made.
    Create(Errno),
}

/// Who wants files copied: hears of each by its number in the list, in any order.
pub trait Files {
    /// Both sides are open and nothing is written yet: flags that only an empty file takes are set here. `false` leaves the
    /// file as it is; nothing more is told of it.
    fn opened(&mut self, number: usize, made: &Made<'_>) -> bool;

    /// The content is there, or is not. Metadata and the final name are the caller's; the descriptors close behind it.
    fn copied(&mut self, number: usize, made: &Made<'_>, copied: Result<Copied, CopyError>);

    /// There is no copy.
    fn failed(&mut self, number: usize, error: FileError);
}

/// Copies these files, the first ones first. When the monitor asks to stop, those under way are finished and no others begun.
///
/// # Errors
/// Why io_uring is not to be had; the ladder then knows, and the monitor was told once. Files of which nothing was told are
/// not copied; should the ring fail midway, they may have been made.
pub fn files(
    wanted: &[Wanted<'_>],
    files: &mut dyn Files,
    ladder: &Ladder,
    request: &Request,
    monitor: &dyn Monitor,
) -> Result<(), Errno> {
    let largest = wanted.iter().map(|wanted| wanted.size).max().unwrap_or(0);
    let buffer = usize::try_from(largest).unwrap_or(LONGEST).clamp(SHORTEST, LONGEST).next_power_of_two();
    let lend = |ring: &mut Ring| {
        let buffer = ring.buffer_length();
        Work { wanted, files, ladder, request, monitor, buffer, ops: Vec::new() }.run(ring)
    };
    with_ring(&RING, SLOTS, buffer, lend).inspect_err(|errno| {
        if ladder.refused(Engine::Uring, 0, *errno) {
            let why = refusals::describe(Engine::Uring, *errno);
            monitor.detail(&format!("{} cannot copy here: {why}; files are copied one at a time", Engine::Uring));
        }
    })
}

struct Work<'a, 'b> {
    wanted: &'a [Wanted<'a>],
    files: &'b mut dyn Files,
    ladder: &'b Ladder,
    request: &'b Request,
    monitor: &'b dyn Monitor,
    /// How much goes into a slot's.
    buffer: usize,
    /// Of which no descriptor is one of a file below: those are asked for by [`File::next`].
    ops: Vec<Op<'a>>,
}

/// A file under way.
struct File {
    number: usize,
    /// Opened without a change of its access time, which only its owner and root may.
    is_silent: bool,
    source: Option<OwnedFd>,
    status: Option<Status>,
    destination: Option<OwnedFd>,
    /// What is in the buffer lies here, so much of it was read, and so much written.
    at: u64,
    got: usize,
    put: usize,
    is_read: bool,
    has_ended: bool,
    passing: Option<Box<Passing>>,
}

impl<'a> Work<'a, '_> {
    fn run(&mut self, ring: &mut Ring) -> Result<(), Errno> {
        let mut slots: Vec<Option<File>> = (0..ring.slots()).map(|_| None).collect();
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
                let file = slots[slot].insert(File::new(number, self.request.hashed));
                match self.open(file, slot) {
                    Ok(op) => self.ops.push(op),
                    Err(errno) => {
                        self.files.failed(number, FileError::Open(errno));
                        slots[slot] = None;
                        free.push(slot);
                    }
                }
            }
            let ops = std::mem::take(&mut self.ops);
            let next = |slot: usize| slots[slot].as_ref().and_then(|file| file.next(slot, self.buffer));
            let next = waiting.drain(..).filter_map(next);
            let done = ring.turn(ops.into_iter().chain(next))?;
            if done.is_empty() && free.len() == slots.len() {
                return Ok(());
            }
            for done in done {
                let slot = done.slot;
                let Some(mut file) = slots.get_mut(slot).and_then(Option::take) else { continue };
                match self.step(ring, slot, &mut file, done.outcome) {
                    Step::Asked => slots[slot] = Some(file),
                    Step::Next => {
                        slots[slot] = Some(file);
                        waiting.push(slot);
                    }
                    Step::Over => {
                        self.ops
                            .extend([file.source.take(), file.destination.take()].into_iter().flatten().map(Op::Close));
                        free.push(slot);
                    }
                }
            }
        }
    }

    fn open(&self, file: &File, slot: usize) -> Result<Op<'a>, Errno> {
        let wanted = self.wanted.get(file.number).ok_or(Errno::INVAL)?;
        let access = if file.is_silent { OFlags::NOATIME } else { OFlags::empty() };
        Ok(Op::Open {
            slot,
            dir: wanted.source_dir,
            name: CString::new(wanted.source).map_err(|_| Errno::INVAL)?,
            flags: OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | access,
            mode: Mode::empty(),
        })
    }

    fn create(&self, file: &File, slot: usize) -> Result<Op<'a>, Errno> {
        let wanted = self.wanted.get(file.number).ok_or(Errno::INVAL)?;
        Ok(Op::Open {
            slot,
            dir: wanted.destination_dir,
            name: CString::new(wanted.destination).map_err(|_| Errno::INVAL)?,
            flags: OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            mode: Mode::RUSR | Mode::WUSR,
        })
    }

    /// Takes what came of a file's request, and says how it goes on.
    fn step(&mut self, ring: &Ring, slot: usize, file: &mut File, outcome: rustix::io::Result<Outcome>) -> Step {
        match (&file.source, &file.destination) {
            (None, _) => self.source_opened(slot, file, outcome),
            (Some(_), None) => self.destination_made(slot, file, outcome),
            (Some(_), Some(_)) => self.moved(ring, slot, file, outcome),
        }
    }

    fn source_opened(&mut self, slot: usize, file: &mut File, outcome: rustix::io::Result<Outcome>) -> Step {
        let asked = match outcome {
            Ok(Outcome::Opened(source)) => {
                let status = Status::of(&source);
                file.source = Some(source);
                match status {
                    Ok(status) if status.file_type() != FileType::RegularFile => {
                        self.files.failed(file.number, FileError::NotRegular(status));
                        return Step::Over;
                    }
                    Ok(status) => {
                        file.status = Some(status);
                        self.create(file, slot).map_err(FileError::Create)
                    }
                    Err(errno) => Err(FileError::Open(errno)),
                }
            }
            Err(Errno::INTR) => self.open(file, slot).map_err(FileError::Open),
            Err(Errno::PERM) if file.is_silent => {
                file.is_silent = false;
                self.open(file, slot).map_err(FileError::Open)
            }
            Err(errno) => Err(FileError::Open(errno)),
            Ok(Outcome::Moved(_)) => Err(FileError::Open(Errno::IO)),
        };
        self.asked(file, asked)
    }

    fn destination_made(&mut self, slot: usize, file: &mut File, outcome: rustix::io::Result<Outcome>) -> Step {
        let failed = match outcome {
            Ok(Outcome::Opened(destination)) => {
                file.destination = Some(destination);
                return self.begin(file);
            }
            Err(Errno::INTR) => self.create(file, slot).map_err(FileError::Create),
            Err(errno) => Err(FileError::Create(errno)),
            Ok(Outcome::Moved(_)) => Err(FileError::Create(Errno::IO)),
        };
        self.asked(file, failed)
    }

    fn asked(&mut self, file: &File, op: Result<Op<'a>, FileError>) -> Step {
        match op {
            Ok(op) => {
                self.ops.push(op);
                Step::Asked
            }
            Err(error) => {
                self.files.failed(file.number, error);
                Step::Over
            }
        }
    }

    /// Both sides are open.
    fn begin(&mut self, file: &mut File) -> Step {
        let Some(made) = file.made() else { return Step::Over };
        if !self.files.opened(file.number, &made) {
            return Step::Over;
        }
        let Status { size, allocated, .. } = *made.status;
        if size > LARGE || allocated < size {
            return self.alone(file, *self.request);
        }
        if size > self.buffer as u64 {
            // As in `data`: or XFS reserves more for each further write.
            if let Err(errno) = ftruncate(made.destination, size) {
                self.files.copied(file.number, &made, Err(CopyError::Destination(errno)));
                return Step::Over;
            }
        }
        Step::Next
    }

    /// Copies a file by itself.
    fn alone(&mut self, file: &File, request: Request) -> Step {
        if let Some(made) = file.made() {
            let Made { source, status, destination } = made;
            let copied = data(source, status, destination, self.ladder, &request, self.monitor);
            self.files.copied(file.number, &made, copied);
        }
        Step::Over
    }

    fn moved(&mut self, ring: &Ring, slot: usize, file: &mut File, outcome: rustix::io::Result<Outcome>) -> Step {
        let bytes = match outcome {
            Ok(Outcome::Moved(bytes)) => bytes,
            Err(Errno::INTR) => return Step::Next,
            Err(errno) => return self.trouble(file, errno),
            Ok(Outcome::Opened(_)) => return self.trouble(file, Errno::IO),
        };
        let Some(size) = file.status.map(|status| status.size) else { return Step::Over };
        if file.is_read {
            if bytes == 0 {
                return self.trouble(file, Errno::NOSPC);
            }
            file.put += bytes;
            self.monitor.advance(Amount { files: 0, bytes: bytes as u64 });
        } else {
            file.got += bytes;
            file.has_ended = bytes == 0;
            file.is_read = file.has_ended || file.got == file.length(self.buffer);
            if let (true, Some(passing)) = (file.is_read, &mut file.passing) {
                let bytes = ring.buffer(slot).get(..file.got).unwrap_or_default();
                if let Err(errno) = passing.take(bytes, file.at, self.monitor) {
                    return self.trouble(file, errno);
                }
            }
        }
        if !file.is_read || file.put < file.got {
            return Step::Next;
        }
        file.at += file.got as u64;
        if file.at < size && !file.has_ended {
            (file.got, file.put, file.is_read) = (0, 0, false);
            return Step::Next;
        }
        if file.has_ended
            && size > self.buffer as u64
            && let Some(destination) = &file.destination
            && let Err(errno) = ftruncate(destination, file.at)
        {
            return self.trouble(file, errno);
        }
        let mut copied = Copied { data: file.at, read: file.at, ..Copied::by(Engine::Uring) };
        if let Some(passing) = file.passing.take() {
            copied.hash = passing.finish(file.at, self.monitor).ok();
        }
        copied.reason = file.status.and_then(|status| self.ladder.known(status.dev)).and_then(Result::err);
        if let Some(made) = file.made() {
            self.files.copied(file.number, &made, Ok(copied));
        }
        Step::Over
    }

    /// A read or a write failed: what is invalid for the ring goes without it, from the beginning.
    fn trouble(&mut self, file: &File, errno: Errno) -> Step {
        let Some(made) = file.made() else { return Step::Over };
        if matches!(judge(errno), Halt::Refused(_)) && ftruncate(made.destination, 0).is_ok() {
            return self.alone(file, Request { engine: Some(Engine::Buffered), ..*self.request });
        }
        let error = if file.is_read { CopyError::Destination(errno) } else { CopyError::Source(errno) };
        self.files.copied(file.number, &made, Err(error));
        Step::Over
    }
}

/// How a file goes on.
enum Step {
    /// Its next request is made.
    Asked,
    /// Its next read or write is to be asked for.
    Next,
    /// It is done with.
    Over,
}

impl File {
    fn new(number: usize, hashed: bool) -> File {
        File {
            number,
            is_silent: true,
            source: None,
            status: None,
            destination: None,
            at: 0,
            got: 0,
            put: 0,
            is_read: false,
            has_ended: false,
            passing: hashed.then(Box::default),
        }
    }

    fn made(&self) -> Option<Made<'_>> {
        let (Some(source), Some(status), Some(destination)) = (&self.source, &self.status, &self.destination) else {
            return None;
        };
        Some(Made { source: source.as_fd(), status, destination: destination.as_fd() })
    }

    /// How much is to be read into a buffer of this length.
    fn length(&self, buffer: usize) -> usize {
        let left = self.status.map_or(0, |status| status.size).saturating_sub(self.at);
        left.min(buffer as u64) as usize
    }

    fn next(&self, slot: usize, buffer: usize) -> Option<Op<'_>> {
        let Made { source, destination, .. } = self.made()?;
        Some(match self.is_read {
            false => Op::Read { slot, file: source, into: self.got..self.length(buffer), at: self.at + self.got as u64 },
            true => Op::Write { slot, file: destination, from: self.put..self.got, at: self.at + self.put as u64 },
        })
    }
}

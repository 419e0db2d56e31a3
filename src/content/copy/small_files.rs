//! Copies many small files at once through io_uring. Each file is a state machine from opening to closing, and one
//! thread runs 64 of them. This keeps a cold device busy: a thread that opens and reads files one by one waits for each
//! of them.
//!
//! Only operations that may wait go through the ring. The status of a file that was just opened is in memory, and a
//! plain statx(2) is faster than one through the ring, where the kernel passes it to a worker. The kernel also passes
//! the creation of files to workers, which then only wait for each other in the same directory. So the caller creates
//! files, one at a time.

use super::data::data;
use super::engine::Engine;
use super::engines::uring::{Kept, lend_ring};
use super::engines::{Halt, LAST_RESORT, judge};
use super::file_copy::FileCopy;
use super::refusals;
use super::strategy::Strategy;
use super::types::{Copied, CopyError, Request};
use crate::content::hash::StreamHash;
use crate::fs::status::Status;
use crate::monitor::{Amount, Event, Monitor};
use crate::sys::uring::{Op, Outcome, Ring};
use rustix::fs::{FileType, Mode, OFlags, ftruncate};
use rustix::io::Errno;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The number of files that are copied at once.
const SLOTS: usize = 64;
/// The longest and the shortest buffer of a file. Buffers are as long as the files need: the kernel pins each page of a
/// buffer, which for 8 MiB a thread takes as long as copying some hundred files.
const LONGEST: usize = 128 << 10;
const SHORTEST: usize = 4 << 10;
/// Larger files, and files with holes, are copied one at a time.
const LARGE: u64 = 1 << 20;

thread_local! {
    static RING: Kept = const { Kept::new(None) };
}

/// A file to copy. Its directory stays open meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The directory of the file.
    pub dir: BorrowedFd<'a>,
    /// The name of the file in the directory. Symbolic links are not followed.
    pub name: &'a [u8],
    /// The expected size. It only affects how the file is read.
    pub size: u64,
}

/// An open source.
#[derive(Clone, Copy, Debug)]
pub struct Opened<'a> {
    /// The file, open for reading.
    pub fd: BorrowedFd<'a>,
    /// The status after opening and before reading.
    pub status: &'a Status,
}

/// Why no copy was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileError {
    /// The source cannot be opened.
    Open(Errno),
    /// The source is not a regular file.
    NotRegular(Status),
}

/// The caller of [`files`]. Files are reported by their number in the list, in any order.
pub trait Files {
    /// A new file for a copy.
    type Copy: AsFd;

    /// A source is open: creates an empty file for its content, open for reading and writing. On `None` the source is
    /// skipped without a further report.
    fn opened(&mut self, number: usize, source: Opened<'_>) -> Option<Self::Copy>;

    /// The content was copied, or not. The caller sets the metadata and the final name.
    fn copied(&mut self, number: usize, source: Opened<'_>, copy: Self::Copy, copied: Result<Copied, CopyError>);

    /// No copy was made.
    fn failed(&mut self, number: usize, error: FileError);
}

/// Copies these files, starting with the first. When the monitor asks to stop, files in progress are finished and no
/// others are started.
///
/// # Errors
/// Why io_uring is unavailable. The strategy remembers this, and the monitor receives it once. Files without a report
/// are not copied.
pub fn files<F: Files>(
    wanted: &[Wanted<'_>],
    files: &mut F,
    strategy: &Strategy,
    request: &Request,
    monitor: &dyn Monitor,
) -> Result<(), Errno> {
    let largest = wanted.iter().map(|wanted| wanted.size).max().unwrap_or(0);
    let buffer = usize::try_from(largest).unwrap_or(LONGEST).clamp(SHORTEST, LONGEST).next_power_of_two();
    let lend = |ring: &mut Ring| {
        let buffer = ring.buffer_length();
        Work { wanted, files, strategy, request, monitor, buffer }.run(ring)
    };
    lend_ring(&RING, SLOTS, buffer, lend).inspect_err(|errno| {
        if strategy.refused(Engine::Uring, 0, *errno) {
            let why = refusals::meaning(Engine::Uring, *errno);
            monitor.event(Event::EngineRefused { engine: &Engine::Uring.to_string(), why, next: None });
        }
    })
}

struct Work<'a, 'b, F> {
    wanted: &'a [Wanted<'a>],
    files: &'b mut F,
    strategy: &'b Strategy,
    request: &'b Request,
    monitor: &'b dyn Monitor,
    /// The length of each slot's buffer.
    buffer: usize,
}

/// A file in progress.
struct File<C> {
    number: usize,
    /// Opened with `O_NOATIME`, which only the owner and root may use.
    is_silent: bool,
    /// Both sides, once they are open.
    sides: Option<Sides<C>>,
    /// The offset of the buffer in the file, the bytes read into it, and the bytes written from it.
    at: u64,
    got: usize,
    put: usize,
    is_read: bool,
    has_ended: bool,
    hash: Option<Box<StreamHash>>,
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
            // A name with a NUL byte does not exist in any directory.
            name: CString::new(wanted.name).unwrap_or_default(),
            flags: OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | access,
            mode: Mode::empty(),
        })
    }

    /// Handles the result of a file's request. Returns the file if it has more requests.
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
            // As in `data`: otherwise XFS reserves more with each write.
            if let Err(errno) = ftruncate(&sides.copy, size) {
                self.copied(file.number, sides, Err(CopyError::Destination(errno)));
                return None;
            }
        }
        file.sides = Some(sides);
        Some(file)
    }

    /// Copies a file without the ring.
    fn alone(&mut self, number: usize, sides: Sides<F::Copy>, request: &Request) {
        let Sides { source, status, copy } = &sides;
        let (source, destination) = (source.as_fd(), copy.as_fd());
        let &mut Work { strategy, monitor, .. } = self;
        let copied = data(&FileCopy { source, status, destination, strategy, monitor }, request);
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
            if let (true, Some(hash)) = (file.is_read, &mut file.hash) {
                let bytes = buffer.get(..file.got).unwrap_or_default();
                if let Err(errno) = hash.append_at(bytes, file.at, self.monitor) {
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
        if let Some(hash) = file.hash.take() {
            copied.hash = hash.finish_at(file.at, self.monitor).ok();
        }
        copied.reason = self.strategy.known(sides.status.dev).and_then(Result::err);
        Moved::Over(Ok(copied))
    }

    /// A read or a write failed. A file that the ring refuses is copied again without it.
    fn trouble(&self, file: &File<F::Copy>, sides: &Sides<F::Copy>, errno: Errno) -> Moved {
        if matches!(judge(errno), Halt::Refused(_)) && ftruncate(&sides.copy, 0).is_ok() {
            return Moved::Alone(Request { engine: Some(LAST_RESORT), ..*self.request });
        }
        Moved::Over(Err(if file.is_read { CopyError::Destination(errno) } else { CopyError::Source(errno) }))
    }
}

/// How a file continues after a read or a write.
enum Moved {
    /// With its next request.
    On,
    /// The copy has ended.
    Over(Result<Copied, CopyError>),
    /// Without the ring, by this request.
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
            hash: hashed.then(Box::default),
        }
    }

    /// How much of a file of this size the next read puts into a buffer of this length.
    fn length(&self, buffer: usize, size: u64) -> usize {
        size.saturating_sub(self.at).min(buffer as u64) as usize
    }
}

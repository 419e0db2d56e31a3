//! A ring with slots: each has a buffer, and at most one request under way. So a file is a slot, and a ring as many
//! files at once as it has slots.
//!
//! The buffers are the ring's own and are lent out only while no request of their slot is under way; a ring that is
//! dropped waits for what is under way. That is what makes the interface safe. Once io_uring_enter(2) has failed, a
//! ring is broken: it submits nothing any more, since a queued request names its descriptor by a number that may be
//! another file's by then.

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::CString;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Where buffers begin: at a multiple of what direct I/O asks for.
const ALIGN: usize = 4096;

/// A request. Descriptors are borrowed until it is submitted, which is before [`Ring::turn`] returns, or it never is;
/// then the kernel has the file, and of `Open` the slot has the name. Only the directory of an `Open` has to stay open
/// until that is done, or the name is looked up elsewhere.
#[derive(Debug)]
pub enum Op<'a> {
    /// openat(2)
    Open {
        /// Whose request it is.
        slot: usize,
        /// The directory.
        dir: BorrowedFd<'a>,
        /// The name in it.
        name: CString,
        /// As for openat(2).
        flags: OFlags,
        /// Of a file that is made.
        mode: Mode,
    },
    /// pread(2) into the slot's buffer
    Read {
        /// Whose request it is.
        slot: usize,
        /// The file.
        file: BorrowedFd<'a>,
        /// Where in the buffer.
        into: Range<usize>,
        /// The offset in the file.
        at: u64,
    },
    /// pwrite(2) from the slot's buffer
    Write {
        /// Whose request it is.
        slot: usize,
        /// The file.
        file: BorrowedFd<'a>,
        /// Where in the buffer.
        from: Range<usize>,
        /// The offset in the file.
        at: u64,
    },
}

/// What came of the request of a slot.
#[derive(Debug)]
pub struct Done {
    /// The slot, which is free for another request.
    pub slot: usize,
    /// What came of it.
    pub outcome: Result<Outcome>,
}

/// What a request yields.
#[derive(Debug)]
pub enum Outcome {
    /// The file is open.
    Opened(OwnedFd),
    /// So many bytes were read or written.
    Moved(usize),
}

/// The ring.
pub struct Ring {
    ring: IoUring,
    memory: Memory,
    slots: Vec<Slot>,
    is_registered: bool,
    under_way: usize,
    /// Why nothing is submitted any more.
    broken: Option<Errno>,
    #[cfg(test)]
    next_error: Option<Errno>,
}

#[derive(Default)]
struct Slot {
    under_way: Option<Kind>,
    /// Kept for the kernel, which may read it later than the request was made.
    name: CString,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Open,
    Move,
}

impl Ring {
    /// A ring with so many slots, whose buffers are so long, in bytes; both are at least 1.
    ///
    /// # Errors
    /// `PERM` where `kernel.io_uring_disabled` or a seccomp filter forbids it, `NOSYS` where the kernel has none.
    #[doc(alias = "io_uring_setup")]
    pub fn new(slots: usize, buffer: usize) -> Result<Ring> {
        let (slots, buffer) = (slots.max(1), buffer.max(1).next_multiple_of(ALIGN));
        let entries = u32::try_from(slots.next_power_of_two()).map_err(|_| Errno::INVAL)?;
        // What is newer than the calls themselves costs less: one thread alone, which is not interrupted by what is
        // done.
        let newer = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries);
        let ring = match newer {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::new(entries),
            result => result,
        };
        let ring = ring.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let memory = Memory::new(slots, buffer)?;
        let mut ring = Ring {
            ring,
            memory,
            slots: (0..slots).map(|_| Slot::default()).collect(),
            is_registered: false,
            under_way: 0,
            broken: None,
            #[cfg(test)]
            next_error: None,
        };
        let all: Vec<_> = (0..slots).map(|slot| ring.memory.iovec(slot)).collect();
        // SAFETY: the buffers live until the ring is closed, which `Drop` does first.
        let registered = unsafe { ring.ring.submitter().register_buffers(&all) };
        // A user's limit of locked memory may be in the way: then the kernel looks the pages up at each request.
        ring.is_registered = registered.is_ok();
        Ok(ring)
    }

    /// How many slots it has.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// How long each slot's buffer is, in bytes.
    pub fn buffer_length(&self) -> usize {
        self.memory.buffer
    }

    /// How many requests are under way.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// A slot's buffer; empty while a request of the slot is under way.
    pub fn buffer(&self, slot: usize) -> &[u8] {
        match self.slots.get(slot) {
            // SAFETY: the memory was zeroed when it was allocated, and without a request nobody writes into this
            // slot's.
            Some(Slot { under_way: None, .. }) => unsafe {
                std::slice::from_raw_parts(self.memory.slot(slot), self.memory.buffer)
            },
            _ => &[],
        }
    }

    /// Submits these requests, then waits until one of those under way is done, and gives all that are.
    ///
    /// # Errors
    /// `INVAL` for a slot that is not there or has a request under way, or for a range outside of its buffer: then
    /// nothing of that request was done, and those before it are under way. Otherwise those of io_uring_enter(2):
    /// what was not submitted by then never is, and every later turn fails as well.
    #[doc(alias = "io_uring_enter")]
    pub fn turn<'a>(&mut self, ops: impl IntoIterator<Item = Op<'a>>) -> Result<Vec<Done>> {
        if let Some(errno) = self.broken {
            return Err(errno);
        }
        for op in ops {
            self.push(op)?;
        }
        let want = usize::from(self.under_way() > 0);
        self.enter(want)?;
        // Short of memory, the kernel may take only some of them.
        while !self.ring.submission().is_empty() {
            self.enter(0)?;
        }
        Ok(self.reap())
    }

    /// Waits for all that is under way, and lets it go.
    pub fn drain(&mut self) {
        while self.under_way > 0 {
            if self.enter(1).is_err() && self.wait().is_err() {
                return;
            }
            self.reap();
        }
    }

    fn push(&mut self, op: Op<'_>) -> Result<()> {
        let (entry, slot, kind) = match op {
            Op::Open { slot, dir, name, flags, mode } => {
                let free = self.free(slot)?;
                // The bytes stay where they are when the name moves into the slot.
                free.name = name;
                let entry = opcode::OpenAt::new(types::Fd(dir.as_raw_fd()), free.name.as_ptr())
                    .flags(flags.bits() as i32)
                    .mode(mode.bits())
                    .build();
                (entry, slot, Kind::Open)
            }
            Op::Read { slot, file, into, at } => {
                let (to, length) = self.part(slot, into)?;
                let fd = types::Fd(file.as_raw_fd());
                let entry = match self.is_registered {
                    true => opcode::ReadFixed::new(fd, to, length, slot as u16).offset(at).build(),
                    false => opcode::Read::new(fd, to, length).offset(at).build(),
                };
                (entry, slot, Kind::Move)
            }
            Op::Write { slot, file, from, at } => {
                let (from, length) = self.part(slot, from)?;
                let fd = types::Fd(file.as_raw_fd());
                let entry = match self.is_registered {
                    true => opcode::WriteFixed::new(fd, from, length, slot as u16).offset(at).build(),
                    false => opcode::Write::new(fd, from, length).offset(at).build(),
                };
                (entry, slot, Kind::Move)
            }
        };
        self.queue(&entry.user_data(slot as u64))?;
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.under_way = Some(kind);
        }
        Ok(())
    }

    fn queue(&mut self, entry: &squeue::Entry) -> Result<()> {
        loop {
            // SAFETY: what the entry points to is the slot's name or buffer. Both live as long as the ring, and neither
            // is touched until the request is done. A descriptor is only a number.
            match unsafe { self.ring.submission().push(entry) } {
                Ok(()) => break,
                // The queue is full: what is in it goes first.
                Err(_) => self.enter(0)?,
            }
        }
        self.under_way += 1;
        Ok(())
    }

    /// Submits what is queued, and waits for so much of what is under way.
    fn enter(&mut self, want: usize) -> Result<()> {
        if let Some(errno) = self.broken {
            return Err(errno);
        }
        let result = self.submit(want);
        if let Err(errno) = result {
            self.broken = Some(errno);
            // What is still in the queue stays there until the ring is closed, which forgets it.
            self.under_way = self.under_way.saturating_sub(self.ring.submission().len());
        }
        result
    }

    /// Waits for something that is under way, and submits nothing.
    fn wait(&mut self) -> Result<()> {
        /// `IORING_ENTER_GETEVENTS` of linux/io_uring.h.
        const GET_EVENTS: u32 = 1;
        // SAFETY: no argument is a pointer.
        self.until_answered(|ring| unsafe { ring.submitter().enter::<()>(0, 1, GET_EVENTS, None) })
    }

    fn submit(&mut self, want: usize) -> Result<()> {
        #[cfg(test)]
        if let Some(errno) = self.next_error.take() {
            return Err(errno);
        }
        self.until_answered(|ring| ring.submit_and_wait(want))
    }

    /// Repeats io_uring_enter(2) until it succeeds, or fails for a reason that does not pass.
    fn until_answered(&mut self, enter: impl Fn(&IoUring) -> io::Result<usize>) -> Result<()> {
        loop {
            match enter(&self.ring) {
                Ok(_) => return Ok(()),
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR) => {}
                    // The completion queue has no room for more: the caller empties it.
                    Some(Errno::BUSY | Errno::AGAIN) if !self.ring.completion().is_empty() => return Ok(()),
                    Some(Errno::AGAIN) => std::thread::yield_now(),
                    errno => return Err(errno.unwrap_or(Errno::IO)),
                },
            }
        }
    }

    fn reap(&mut self) -> Vec<Done> {
        let entries: Vec<cqueue::Entry> = self.ring.completion().collect();
        self.under_way -= entries.len();
        entries.into_iter().filter_map(|entry| self.done(&entry)).collect()
    }

    fn done(&mut self, entry: &cqueue::Entry) -> Option<Done> {
        let slot = usize::try_from(entry.user_data()).ok()?;
        let kind = self.slots.get_mut(slot)?.under_way.take()?;
        let result = entry.result();
        let outcome = match kind {
            _ if result < 0 => Err(Errno::from_raw_os_error(result.saturating_neg())),
            // SAFETY: the request has just made this descriptor, and nobody else has it.
            Kind::Open => Ok(Outcome::Opened(unsafe { OwnedFd::from_raw_fd(result) })),
            Kind::Move => Ok(Outcome::Moved(result as usize)),
        };
        Some(Done { slot, outcome })
    }

    fn free(&mut self, slot: usize) -> Result<&mut Slot> {
        self.slots.get_mut(slot).filter(|slot| slot.under_way.is_none()).ok_or(Errno::INVAL)
    }

    fn part(&mut self, slot: usize, range: Range<usize>) -> Result<(*mut u8, u32)> {
        self.free(slot)?;
        if range.start > range.end || range.end > self.memory.buffer {
            return Err(Errno::INVAL);
        }
        // SAFETY: the range lies within the slot's buffer (checked above).
        let start = unsafe { self.memory.slot(slot).add(range.start) };
        Ok((start, u32::try_from(range.len()).map_err(|_| Errno::INVAL)?))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.drain();
        // Should the kernel not say what became of a request, its buffer must stay.
        self.memory.is_leaked = self.under_way > 0;
    }
}

/// The buffers of all slots.
struct Memory {
    start: NonNull<u8>,
    layout: Layout,
    buffer: usize,
    is_leaked: bool,
}

impl Memory {
    fn new(slots: usize, buffer: usize) -> Result<Memory> {
        let size = slots.checked_mul(buffer).ok_or(Errno::NOMEM)?;
        let layout = Layout::from_size_align(size, ALIGN).map_err(|_| Errno::NOMEM)?;
        // SAFETY: the size is not 0, for neither of its factors is.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(Errno::NOMEM)?;
        Ok(Memory { start, layout, buffer, is_leaked: false })
    }

    /// Where a slot's buffer begins; the caller knows that there is such a slot.
    fn slot(&self, slot: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(slot * self.buffer)
    }

    fn iovec(&self, slot: usize) -> libc::iovec {
        libc::iovec { iov_base: self.slot(slot).cast(), iov_len: self.buffer }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.is_leaked {
            // SAFETY: it was allocated with this layout, and no request is under way that could write into it.
            unsafe { dealloc(self.start.as_ptr(), self.layout) };
        }
    }
}

#[cfg(test)]
mod tests;

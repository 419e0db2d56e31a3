//! A ring with slots: each has a buffer, and at most one pending request. So each file uses a slot, and a ring handles
//! as many files at once as it has slots.
//!
//! The buffers belong to the ring and are only accessible while no request of their slot is pending. Dropping a ring
//! waits for pending requests. This makes the interface safe. Once io_uring_enter(2) has failed, a ring is broken: it
//! submits nothing more, because a queued request refers to its descriptor by number, which may refer to another file
//! by then.

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::CString;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// The alignment of buffers, as direct I/O requires.
const ALIGN: usize = 4096;

/// A request. It borrows its descriptors until it is submitted, which happens before [`Ring::turn`] returns or never.
/// After that the kernel holds the file, and for `Open` the slot holds the name. Only the directory of an `Open` must
/// stay open until the request is done. Otherwise the name is looked up elsewhere.
#[derive(Debug)]
pub(crate) enum Op<'a> {
    /// openat(2)
    Open {
        /// The slot of the request.
        slot: usize,
        /// The directory.
        dir: BorrowedFd<'a>,
        /// The name in it.
        name: CString,
        /// The flags of openat(2).
        flags: OFlags,
        /// The mode of a new file.
        mode: Mode,
    },
    /// pread(2) into the slot's buffer
    Read {
        /// The slot of the request.
        slot: usize,
        /// The file.
        file: BorrowedFd<'a>,
        /// The range of the buffer.
        into: Range<usize>,
        /// The offset in the file.
        at: u64,
    },
    /// pwrite(2) from the slot's buffer
    Write {
        /// The slot of the request.
        slot: usize,
        /// The file.
        file: BorrowedFd<'a>,
        /// The range of the buffer.
        from: Range<usize>,
        /// The offset in the file.
        at: u64,
    },
}

/// The result of a slot's request.
#[derive(Debug)]
pub(crate) struct Done {
    /// The slot, which can have another request now.
    pub slot: usize,
    /// The result.
    pub outcome: Result<Outcome>,
}

/// The result of a request that succeeded.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The file is open.
    Opened(OwnedFd),
    /// This many bytes were read or written.
    Moved(usize),
}

/// The ring.
pub(crate) struct Ring {
    ring: IoUring,
    memory: Memory,
    slots: Vec<Slot>,
    is_registered: bool,
    under_way: usize,
    /// Why nothing more is submitted.
    broken: Option<Errno>,
    #[cfg(test)]
    next_error: Option<Errno>,
}

#[derive(Default)]
struct Slot {
    under_way: Option<Kind>,
    /// Stored here because the kernel may read it after the request was submitted.
    name: CString,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Open,
    Move,
}

impl Ring {
    /// A ring with this many slots and buffers of this length in bytes. Both are at least 1.
    ///
    /// # Errors
    /// `PERM` if `kernel.io_uring_disabled` or a seccomp filter forbids it, `NOSYS` if the kernel has no io_uring.
    #[doc(alias = "io_uring_setup")]
    pub(crate) fn new(slots: usize, buffer: usize) -> Result<Ring> {
        let (slots, buffer) = (slots.max(1), buffer.max(1).next_multiple_of(ALIGN));
        let entries = u32::try_from(slots.next_power_of_two()).map_err(|_| Errno::INVAL)?;
        // Options of newer kernels cost less: only one thread submits, and completions do not interrupt it.
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
        // The user's limit for locked memory may prevent this. Then the kernel looks up the pages for each request.
        ring.is_registered = registered.is_ok();
        Ok(ring)
    }

    /// The number of slots.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The length of each slot's buffer, in bytes.
    pub(crate) fn buffer_length(&self) -> usize {
        self.memory.buffer
    }

    /// The number of pending requests.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// A slot's buffer. Empty while a request of the slot is pending.
    pub(crate) fn buffer(&self, slot: usize) -> &[u8] {
        match self.slots.get(slot) {
            // SAFETY: the memory was zeroed when it was allocated, and without a request nobody writes into this slot's
            // memory.
            Some(Slot { under_way: None, .. }) => unsafe {
                std::slice::from_raw_parts(self.memory.slot(slot), self.memory.buffer)
            },
            _ => &[],
        }
    }

    /// Submits these requests, then waits until a pending request is done. Returns all results so far.
    ///
    /// # Errors
    /// `INVAL` if a slot does not exist or has a pending request, or if a range is outside its buffer. Then nothing of
    /// that request was done, and the requests before it are pending. Otherwise errors of io_uring_enter(2): requests
    /// that were not submitted by then never will be, and every later turn fails too.
    #[doc(alias = "io_uring_enter")]
    pub(crate) fn turn<'a>(&mut self, ops: impl IntoIterator<Item = Op<'a>>) -> Result<Vec<Done>> {
        if let Some(errno) = self.broken {
            return Err(errno);
        }
        for op in ops {
            self.push(op)?;
        }
        let want = usize::from(self.under_way() > 0);
        self.enter(want)?;
        // If the kernel lacks memory, it may accept only some of the requests.
        while !self.ring.submission().is_empty() {
            self.enter(0)?;
        }
        Ok(self.reap())
    }

    /// Waits for all pending requests and drops their results.
    pub(crate) fn drain(&mut self) {
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
                // The bytes of the name do not move when it is stored in the slot.
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
            // SAFETY: the entry points to the slot's name or buffer. Both live as long as the ring, and neither is used
            // until the request is done. A descriptor is only a number.
            match unsafe { self.ring.submission().push(entry) } {
                Ok(()) => break,
                // The queue is full, so its requests are submitted first.
                Err(_) => self.enter(0)?,
            }
        }
        self.under_way += 1;
        Ok(())
    }

    /// Submits the queued requests, and waits for this many pending requests.
    fn enter(&mut self, want: usize) -> Result<()> {
        if let Some(errno) = self.broken {
            return Err(errno);
        }
        let result = self.submit(want);
        if let Err(errno) = result {
            self.broken = Some(errno);
            // Requests still in the queue are never submitted. They are dropped when the ring is closed.
            self.under_way = self.under_way.saturating_sub(self.ring.submission().len());
        }
        result
    }

    /// Waits for a pending request, and submits nothing.
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

    /// Repeats io_uring_enter(2) until it succeeds, or fails with a permanent error.
    fn until_answered(&mut self, enter: impl Fn(&IoUring) -> io::Result<usize>) -> Result<()> {
        loop {
            match enter(&self.ring) {
                Ok(_) => return Ok(()),
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR) => {}
                    // The completion queue is full: the caller empties it.
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
        // If the kernel did not report the result of a request, its buffer must stay.
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

    /// The start of a slot's buffer. The caller must ensure that the slot exists.
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
            // SAFETY: it was allocated with this layout, and no pending request can write into it.
            unsafe { dealloc(self.start.as_ptr(), self.layout) };
        }
    }
}

#[cfg(test)]
mod tests;

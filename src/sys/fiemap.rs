//! `FS_IOC_FIEMAP`: the extents of a file, one buffer at a time.
//!
//! Sources: `Documentation/filesystems/fiemap.rst`, `include/uapi/linux/fiemap.h`.

use super::extent::{Extent, ExtentFlags, Reported};
use rustix::io::Result;
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode, opcode};
use std::ffi::c_void;
use std::os::fd::AsFd;

const FS_IOC_FIEMAP: Opcode = opcode::read_write::<Header>(b'f', 11);
const _: () = assert!(FS_IOC_FIEMAP == 0xc020_660b);

/// `FIEMAP_FLAG_SYNC`: write dirty pages first, so that no extent is reported as delayed.
const FIEMAP_FLAG_SYNC: u32 = 1;

/// The number of extents per call: 28 KiB of buffer, so that even a file with a million extents needs few calls.
const BATCH: usize = 512;

/// `struct fiemap` without its trailing array.
#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

const _: () = assert!(size_of::<Header>() == 32);
const _: () = assert!(size_of::<RawExtent>() == 56);

#[repr(C)]
struct Request<const N: usize> {
    header: Header,
    extents: [RawExtent; N],
}

impl<const N: usize> Request<N> {
    fn new() -> Self {
        let empty = RawExtent { logical: 0, physical: 0, length: 0, reserved64: [0; 2], flags: 0, reserved: [0; 3] };
        let header = Header { start: 0, length: 0, flags: 0, mapped_extents: 0, extent_count: N as u32, reserved: 0 };
        Request { header, extents: [empty; N] }
    }

    /// Makes one call: the extents from `start` on, as many as fit.
    fn fetch(&mut self, fd: impl AsFd, start: u64, sync: bool) -> Result<&[RawExtent]> {
        let flags = if sync { FIEMAP_FLAG_SYNC } else { 0 };
        self.header =
            Header { start, length: u64::MAX - start, flags, mapped_extents: 0, extent_count: N as u32, reserved: 0 };
        // SAFETY: the request has room for the `extent_count` extents it announces.
        unsafe { ioctl::ioctl(fd, Call(self)) }?;
        let mapped = (self.header.mapped_extents as usize).min(N);
        Ok(&self.extents[..mapped])
    }
}

struct Call<'a, const N: usize>(&'a mut Request<N>);

// SAFETY: the number is FS_IOC_FIEMAP's, and the pointer points to a whole `fiemap` with its array.
unsafe impl<const N: usize> Ioctl for Call<'_, N> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        FS_IOC_FIEMAP
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> Result<()> {
        Ok(())
    }
}

/// The extents of a file in the order of their logical offsets. Memory does not depend on their number.
///
/// # Errors
/// `OPNOTSUPP` or `NOTTY` if the filesystem has no extent maps (tmpfs, procfs).
#[doc(alias = "FS_IOC_FIEMAP")]
pub(crate) fn extents<Fd: AsFd>(fd: Fd, sync: bool) -> Extents<Fd> {
    extents_from(fd, 0, sync)
}

/// The extents from an offset on. The first may begin before it.
pub(crate) fn extents_from<Fd: AsFd>(fd: Fd, start: u64, sync: bool) -> Extents<Fd> {
    Extents { fd, request: Box::new(Request::new()), next: 0, available: 0, start, sync, done: false }
}

/// The first extent only, for small files. Does not sync.
pub(crate) fn first_extent(fd: impl AsFd) -> Result<Option<Extent>> {
    let mut request = Request::<1>::new();
    Ok(request.fetch(fd, 0, false)?.first().map(|raw| reported(raw).extent()))
}

/// All extents of a file, in one call with little memory. `None` if the file has more than eight.
pub(crate) fn few_extents(fd: impl AsFd, sync: bool) -> Result<Option<Vec<Extent>>> {
    let mut request = Request::<9>::new();
    let found = request.fetch(fd, 0, sync)?;
    Ok((found.len() < 9).then(|| found.iter().map(|raw| reported(raw).extent()).collect()))
}

/// Iterator of [`extents`].
pub(crate) struct Extents<Fd> {
    fd: Fd,
    request: Box<Request<BATCH>>,
    next: usize,
    available: usize,
    start: u64,
    sync: bool,
    done: bool,
}

impl<Fd: AsFd> Extents<Fd> {
    /// The next extent exactly as the kernel reports it; otherwise the same as [`Iterator::next`].
    pub(crate) fn next_reported(&mut self) -> Option<Result<Reported>> {
        if self.next == self.available {
            if self.done {
                return None;
            }
            self.next = 0;
            self.available = match self.request.fetch(&self.fd, self.start, self.sync) {
                Ok(extents) => extents.len(),
                Err(error) => {
                    self.done = true;
                    self.available = 0;
                    return Some(Err(error));
                }
            };
            self.sync = false;
        }
        let Some(raw) = self.request.extents[..self.available].get(self.next) else {
            self.done = true;
            return None;
        };
        self.next += 1;
        let extent = reported(raw);
        // The kernel's mark of the last extent, or a length without progress.
        if extent.flags.contains(ExtentFlags::LAST) || extent.logical_end() <= self.start {
            self.done = true;
        }
        self.start = self.start.max(extent.logical_end());
        Some(Ok(extent))
    }
}

impl<Fd: AsFd> Iterator for Extents<Fd> {
    type Item = Result<Extent>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_reported()?.map(|reported| reported.extent()))
    }
}

fn reported(raw: &RawExtent) -> Reported {
    Reported { logical: raw.logical, physical: raw.physical, length: raw.length, flags: ExtentFlags(raw.flags) }
}

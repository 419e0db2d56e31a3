//! `FS_IOC_GETFSMAP`: who owns which part of a device, streamed a buffer at a time.
//!
//! What an owner is, is the filesystem's: on XFS an inode number where it keeps a reverse map; ext4 knows no owners.
//!
//! Sources: ioctl_getfsmap(2), `include/uapi/linux/fsmap.h`.

use rustix::io::Result;
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode, opcode};
use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::AsFd;

const FS_IOC_GETFSMAP: Opcode = opcode::read_write::<Header>(b'X', 59);
const _: () = assert!(FS_IOC_GETFSMAP == 0xc0c0_583b);

/// Records asked for in one call: 32 KiB of buffer.
const BATCH: usize = 512;

const FMR_OF_PREALLOC: u32 = 0x1;
const FMR_OF_ATTR_FORK: u32 = 0x2;
const FMR_OF_EXTENT_MAP: u32 = 0x4;
const FMR_OF_SHARED: u32 = 0x8;
const FMR_OF_SPECIAL_OWNER: u32 = 0x10;
const FMR_OF_LAST: u32 = 0x20;

/// `struct fsmap`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Raw {
    device: u32,
    flags: u32,
    physical: u64,
    owner: u64,
    offset: u64,
    length: u64,
    reserved: [u64; 3],
}

/// `struct fsmap_head` without its trailing array.
#[repr(C)]
struct Header {
    iflags: u32,
    oflags: u32,
    count: u32,
    entries: u32,
    reserved: [u64; 6],
    keys: [Raw; 2],
}

const _: () = assert!(size_of::<Raw>() == 64);
const _: () = assert!(size_of::<Header>() == 192);

const EMPTY: Raw = Raw { device: 0, flags: 0, physical: 0, owner: 0, offset: 0, length: 0, reserved: [0; 3] };

#[repr(C)]
struct Request {
    header: Header,
    records: [Raw; BATCH],
}

const _: () = assert!(size_of::<Request>() == 192 + BATCH * 64);

struct Call<'a>(&'a mut Request);

// SAFETY: the number is FS_IOC_GETFSMAP's, and the pointer leads to a whole `fsmap_head` with its array.
unsafe impl Ioctl for Call<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        FS_IOC_GETFSMAP
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> Result<()> {
        Ok(())
    }
}

/// To whom a part of the device belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// An inode's data or metadata.
    Inode(u64),
    /// Free space, the filesystem's own metadata, or unknown: the kernel's code.
    Special(u64),
}

/// A part of the device and its owner. Shared blocks have a record for each owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The device's number, as the kernel encodes it (see [`device_code`]).
    pub device: u32,
    /// The offset on the device, in bytes.
    pub physical: u64,
    /// The length in bytes.
    pub length: u64,
    /// The owner.
    pub owner: Owner,
    /// The offset in the owner's file, in bytes.
    pub offset: u64,
    flags: u32,
}

impl Record {
    /// Whether it is the content of a file, rather than its attributes or the map of its extents.
    pub fn is_file_data(&self) -> bool {
        matches!(self.owner, Owner::Inode(_)) && self.flags & (FMR_OF_ATTR_FORK | FMR_OF_EXTENT_MAP) == 0
    }

    /// Whether several files hold it.
    pub fn is_shared(&self) -> bool {
        self.flags & FMR_OF_SHARED != 0
    }

    /// Whether it is allocated and was never written.
    pub fn is_unwritten(&self) -> bool {
        self.flags & FMR_OF_PREALLOC != 0
    }
}

/// The number of a device as `FS_IOC_GETFSMAP` has it (`new_encode_dev` in `linux/kdev_t.h`).
pub fn device_code(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// What the filesystem of `fd` says of a range of a device, in physical order. Memory does not depend on its length.
///
/// # Errors
/// `OPNOTSUPP` or `NOTTY` where the filesystem has no such call. Without `CAP_SYS_ADMIN` all owners are unknown.
#[doc(alias = "FS_IOC_GETFSMAP")]
pub fn records<Fd: AsFd>(fd: Fd, device: u32, range: Range<u64>) -> Records<Fd> {
    let low = Raw { device, physical: range.start, ..EMPTY };
    let last = range.end.saturating_sub(1);
    let high =
        Raw { device, flags: u32::MAX, physical: last, owner: u64::MAX, offset: u64::MAX, length: 0, reserved: [0; 3] };
    let header = Header { iflags: 0, oflags: 0, count: BATCH as u32, entries: 0, reserved: [0; 6], keys: [low, high] };
    let request = Box::new(Request { header, records: [EMPTY; BATCH] });
    Records { fd, request, next: 0, available: 0, done: range.is_empty() }
}

/// Iterator of [`records`].
pub struct Records<Fd> {
    fd: Fd,
    request: Box<Request>,
    next: usize,
    available: usize,
    done: bool,
}

impl<Fd: AsFd> Iterator for Records<Fd> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.available {
            if self.done {
                return None;
            }
            if let Err(error) = self.fetch() {
                self.done = true;
                return Some(Err(error));
            }
        }
        let Some(raw) = self.request.records[..self.available].get(self.next).copied() else {
            self.done = true;
            return None;
        };
        self.next += 1;
        let special = raw.flags & FMR_OF_SPECIAL_OWNER != 0;
        let owner = if special { Owner::Special(raw.owner) } else { Owner::Inode(raw.owner) };
        let Raw { device, flags, physical, offset, length, .. } = raw;
        Some(Ok(Record { device, physical, length, owner, offset, flags }))
    }
}

impl<Fd: AsFd> Records<Fd> {
    /// One call; the low key of the next one is the last record of this.
    fn fetch(&mut self) -> Result<()> {
        (self.next, self.available) = (0, 0);
        self.request.header.entries = 0;
        // SAFETY: the request has room for the `count` records it announces.
        unsafe { ioctl::ioctl(&self.fd, Call(&mut self.request)) }?;
        self.available = (self.request.header.entries as usize).min(BATCH);
        match self.request.records[..self.available].last() {
            Some(last) if last.flags & FMR_OF_LAST == 0 && self.available == BATCH => {
                self.request.header.keys[0] = *last;
            }
            _ => self.done = true,
        }
        Ok(())
    }
}

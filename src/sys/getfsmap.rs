//! `FS_IOC_GETFSMAP`: the owner of each part of a device, one buffer at a time.
//!
//! The filesystem defines the owners: on XFS an owner is an inode number if XFS keeps a reverse map. ext4 knows no
//! owners.
//!
//! Sources: ioctl_getfsmap(2), `include/uapi/linux/fsmap.h`.

use rustix::io::{Errno, Result};
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode, opcode};
use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::AsFd;

const FS_IOC_GETFSMAP: Opcode = opcode::read_write::<Header>(b'X', 59);
const _: () = assert!(FS_IOC_GETFSMAP == 0xc0c0_583b);

/// The number of records per call: 32 KiB of buffer.
const BATCH: usize = 512;
/// The same for many records: 128 KiB, as many as the kernel collects before it copies them.
const LARGE_BATCH: usize = 2048;

const FMR_OF_ATTR_FORK: u32 = 0x2;
const FMR_OF_EXTENT_MAP: u32 = 0x4;
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

/// `struct fsmap_head` without its trailing array. Used only for the call's number and its layout.
#[repr(C)]
#[allow(dead_code, reason = "never made")]
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

/// The header has the size of this many records. Its last two records are the keys.
const HEADER: usize = 3;
const _: () = assert!(size_of::<Header>() == HEADER * size_of::<Raw>());
const _: () = assert!(std::mem::offset_of!(Header, keys) == size_of::<Raw>());

/// A complete `struct fsmap_head` with its array, as a list of records.
struct Request(Vec<Raw>);

impl Request {
    /// Makes one call: the records from `low` to `high`, as many as fit.
    fn fetch(&mut self, fd: impl AsFd, low: Raw, high: Raw) -> Result<&[Raw]> {
        let count = self.capacity() as u32;
        // `fmh_count` and `fmh_entries` have the offset of `fmr_physical` in a record.
        self.0[0] = Raw { physical: two(count, 0), ..EMPTY };
        (self.0[1], self.0[2]) = (low, high);
        // SAFETY: the list has room for the `count` records it announces, behind the header.
        unsafe { ioctl::ioctl(fd, Call(&mut self.0)) }?;
        let [_, _, _, _, entries @ ..] = self.0[0].physical.to_ne_bytes();
        let entries = (u32::from_ne_bytes(entries) as usize).min(self.capacity());
        Ok(&self.0[HEADER..HEADER + entries])
    }

    fn with_capacity(records: usize) -> Self {
        Request(vec![EMPTY; HEADER + records])
    }

    fn capacity(&self) -> usize {
        self.0.len() - HEADER
    }
}

/// Two adjacent 32-bit fields as one.
fn two(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

struct Call<'a>(&'a mut Vec<Raw>);

// SAFETY: the number is FS_IOC_GETFSMAP's, and the pointer points to a whole `fsmap_head` with its array.
unsafe impl Ioctl for Call<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        FS_IOC_GETFSMAP
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> Result<()> {
        Ok(())
    }
}

/// The owner of a part of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// An inode's data or metadata.
    Inode(u64),
    /// Free space, metadata of the filesystem, or unknown: the kernel's code.
    Special(u64),
}

impl Owner {
    /// Free space (`FMR_OWN_FREE`).
    pub(crate) const FREE: Owner = Owner::Special(1);
    /// The kernel does not know, or does not say (`FMR_OWN_UNKNOWN`).
    pub(crate) const UNKNOWN: Owner = Owner::Special(2);
}

/// A part of the device and its owner. Shared blocks have a record for each owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
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
    /// The part of the device, in bytes.
    pub(crate) fn range(&self) -> Range<u64> {
        self.physical..self.physical.saturating_add(self.length)
    }

    /// Whether it is content of a file, not its attributes or the map of its extents.
    pub(crate) fn is_file_data(&self) -> bool {
        matches!(self.owner, Owner::Inode(_)) && self.flags & (FMR_OF_ATTR_FORK | FMR_OF_EXTENT_MAP) == 0
    }
}

/// The number of a device in `FS_IOC_GETFSMAP` (`new_encode_dev` in `linux/kdev_t.h`).
pub(crate) fn device_code(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The records for a range of a device from the filesystem of `fd`, in physical order. Memory does not depend on the
/// length of the range.
///
/// # Errors
/// `OPNOTSUPP` or `NOTTY` if the filesystem does not support the call. Without `CAP_SYS_ADMIN` all owners are unknown.
#[doc(alias = "FS_IOC_GETFSMAP")]
pub(crate) fn records<Fd: AsFd>(fd: Fd, device: u32, range: Range<u64>) -> Records<Fd> {
    Records::new(fd, device, range, BATCH)
}

/// Like [`records`], with calls for more records: for a large part of a device.
pub(crate) fn many_records<Fd: AsFd>(fd: Fd, device: u32, range: Range<u64>) -> Records<Fd> {
    Records::new(fd, device, range, LARGE_BATCH)
}

impl<Fd> Records<Fd> {
    fn new(fd: Fd, device: u32, range: Range<u64>, batch: usize) -> Self {
        let low = Raw { device, physical: range.start, ..EMPTY };
        let last = range.end.saturating_sub(1);
        let (owner, offset) = (u64::MAX, u64::MAX);
        let high = Raw { device, flags: u32::MAX, physical: last, owner, offset, length: 0, reserved: [0; 3] };
        let request = Request::with_capacity(batch);
        Records { fd, request, low, high, batch: Vec::new().into_iter(), last: None, done: range.is_empty() }
    }
}

/// Iterator of [`records`] and [`many_records`].
pub(crate) struct Records<Fd> {
    fd: Fd,
    request: Request,
    low: Raw,
    high: Raw,
    batch: std::vec::IntoIter<Raw>,
    /// The last record that was returned.
    last: Option<Raw>,
    done: bool,
}

impl<Fd: AsFd> Iterator for Records<Fd> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(raw) = self.batch.next() {
                self.last = Some(raw);
                return Some(Ok(Record::from_raw(&raw)));
            }
            if self.done {
                return None;
            }
            if let Err(error) = self.fetch() {
                self.done = true;
                return Some(Err(error));
            }
        }
    }
}

impl<Fd: AsFd> Records<Fd> {
    /// Reads the next records.
    ///
    /// The manual says to continue with the last record as the low key. XFS (seen on Linux 6.18) then skips further
    /// records of the same file for the same blocks. So the key names the file with the number before, and records that
    /// were returned already are ignored. If one file has more such records than fit into a call, the key is the first
    /// possible one after the last record, without a length: then XFS skips nothing, but returns all records again that
    /// begin before the key and extend past it.
    ///
    /// # Errors
    /// `OVERFLOW` if neither makes progress: a file refers so often to an extent of several blocks.
    fn fetch(&mut self) -> Result<()> {
        let (before, after) = match self.last {
            None => (self.low, None),
            Some(last) if Record::from_raw(&last).is_file_data() => {
                let before = Raw { flags: 0, owner: last.owner.saturating_sub(1), offset: 0, ..last };
                let after = Raw { flags: 0, offset: last.offset.saturating_add(last.length), length: 0, ..last };
                (before, Some(after))
            }
            Some(last) => (last, None),
        };
        for low in [Some(before), after].into_iter().flatten() {
            if self.done || self.fetch_from(low)? {
                return Ok(());
            }
        }
        if self.done { Ok(()) } else { Err(Errno::OVERFLOW) }
    }

    /// Makes one call. Returns whether it found new records.
    fn fetch_from(&mut self, low: Raw) -> Result<bool> {
        let capacity = self.request.capacity();
        let found = self.request.fetch(&self.fd, low, self.high)?;
        let is_last = found.last().is_none_or(|raw| raw.flags & FMR_OF_LAST != 0);
        self.done = is_last || found.len() < capacity;
        let last = self.last.map(|last| last.place());
        let new: Vec<Raw> = found.iter().filter(|raw| last.is_none_or(|last| last < raw.place())).copied().collect();
        self.batch = new.into_iter();
        Ok(self.batch.len() > 0)
    }
}

impl Raw {
    /// The sort key of records.
    fn place(&self) -> (u32, u64, u64, u64) {
        (self.device, self.physical, self.owner, self.offset)
    }
}

impl Record {
    fn from_raw(raw: &Raw) -> Record {
        let special = raw.flags & FMR_OF_SPECIAL_OWNER != 0;
        let owner = if special { Owner::Special(raw.owner) } else { Owner::Inode(raw.owner) };
        let Raw { device, flags, physical, offset, length, .. } = *raw;
        Record { device, physical, length, owner, offset, flags }
    }
}

//! `FICLONE`, `FICLONERANGE`, `FIDEDUPERANGE`: share extents between files.
//!
//! Sources: ioctl_ficlone(2), ioctl_ficlonerange(2), ioctl_fideduperange(2), `include/uapi/linux/fs.h`.

use rustix::io::{Errno, Result};
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode, Setter, opcode};
use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

const FICLONERANGE: Opcode = opcode::write::<FileCloneRange>(0x94, 13);
const FIDEDUPERANGE: Opcode = opcode::read_write::<DedupeHeader>(0x94, 54);

// A wrong number would give ENOTTY, which looks like "this filesystem has no reflinks".
const _: () = assert!(FICLONERANGE == 0x4020_940d);
const _: () = assert!(FIDEDUPERANGE == 0xc018_9436);

/// `struct file_clone_range`.
#[repr(C)]
struct FileCloneRange {
    src_fd: i64,
    src_offset: u64,
    src_length: u64,
    dest_offset: u64,
}

/// `struct file_dedupe_range` without its trailing array.
#[repr(C)]
#[derive(Clone, Copy)]
struct DedupeHeader {
    src_offset: u64,
    src_length: u64,
    dest_count: u16,
    reserved1: u16,
    reserved2: u32,
}

/// `struct file_dedupe_range_info`.
#[repr(C)]
#[derive(Clone, Copy)]
struct DedupeInfo {
    dest_fd: i64,
    dest_offset: u64,
    bytes_deduped: u64,
    status: i32,
    reserved: u32,
}

const _: () = assert!(size_of::<FileCloneRange>() == 32);
const _: () = assert!(size_of::<DedupeHeader>() == 24);
const _: () = assert!(size_of::<DedupeInfo>() == 32);

/// The most destinations of one `FIDEDUPERANGE`: the header and the array must fit into one page (`fs/ioctl.c`).
pub const MAX_DEDUPE_DESTINATIONS: usize = (4096 - size_of::<DedupeHeader>()) / size_of::<DedupeInfo>();
const _: () = assert!(MAX_DEDUPE_DESTINATIONS == 127);

/// `ioctl(FICLONE)`: makes all of `destination` share `source`'s extents, atomically.
#[doc(alias = "FICLONE")]
pub fn clone(source: impl AsFd, destination: impl AsFd) -> Result<()> {
    rustix::fs::ioctl_ficlone(destination, source)
}

/// `ioctl(FICLONERANGE)`: makes a block-aligned range of `destination` share `source`'s extents. Length 0 means up to
/// the end.
#[doc(alias = "FICLONERANGE")]
pub fn clone_range(
    source: impl AsFd,
    offset: u64,
    length: u64,
    destination: impl AsFd,
    dest_offset: u64,
) -> Result<()> {
    let source = source.as_fd();
    let range =
        FileCloneRange { src_fd: i64::from(source.as_raw_fd()), src_offset: offset, src_length: length, dest_offset };
    // SAFETY: the number belongs to this structure (checked above), and the kernel only reads it.
    let request = unsafe { Setter::<FICLONERANGE, FileCloneRange>::new(range) };
    // SAFETY: `source` is borrowed, hence open, for the length of the call.
    unsafe { ioctl::ioctl(destination, request) }
}

/// The result for one destination of a dedupe request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DedupeStatus {
    /// The ranges were equal and now share their extents. The kernel does not report how much of this is new.
    Same,
    /// At least one byte differs; nothing was changed.
    Differs,
    /// The kernel could not use the destination.
    Failed(Errno),
}

/// `ioctl(FIDEDUPERANGE)`: the kernel compares a range of `source` with each destination and shares equal ranges.
///
/// # Errors
/// `INVAL` for more than [`MAX_DEDUPE_DESTINATIONS`], or for a source range beyond the end. See the manual page for
/// others.
#[doc(alias = "FIDEDUPERANGE")]
pub fn dedupe(
    source: impl AsFd,
    offset: u64,
    length: u64,
    destinations: &[(BorrowedFd<'_>, u64)],
) -> Result<Vec<DedupeStatus>> {
    if destinations.len() > MAX_DEDUPE_DESTINATIONS {
        return Err(Errno::INVAL);
    }
    let header = DedupeHeader {
        src_offset: offset,
        src_length: length,
        dest_count: destinations.len() as u16,
        reserved1: 0,
        reserved2: 0,
    };
    let mut request = DedupeRequest {
        header,
        infos: [DedupeInfo { dest_fd: -1, dest_offset: 0, bytes_deduped: 0, status: 0, reserved: 0 };
            MAX_DEDUPE_DESTINATIONS],
    };
    for (info, (fd, dest_offset)) in request.infos.iter_mut().zip(destinations) {
        info.dest_fd = i64::from(fd.as_raw_fd());
        info.dest_offset = *dest_offset;
    }
    // SAFETY: the request is the kernel's structure with as many infos as it says, and all descriptors are borrowed.
    unsafe { ioctl::ioctl(source, DedupeCall(&mut request)) }?;
    Ok(request.infos[..destinations.len()]
        .iter()
        .map(|info| match info.status {
            0 => DedupeStatus::Same,
            1 => DedupeStatus::Differs,
            errno => DedupeStatus::Failed(Errno::from_raw_os_error(errno.saturating_neg())),
        })
        .collect())
}

#[repr(C)]
struct DedupeRequest {
    header: DedupeHeader,
    infos: [DedupeInfo; MAX_DEDUPE_DESTINATIONS],
}

struct DedupeCall<'a>(&'a mut DedupeRequest);

// SAFETY: the number is FIDEDUPERANGE's, and the pointer points to a whole `file_dedupe_range` that outlives the call.
unsafe impl Ioctl for DedupeCall<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        FIDEDUPERANGE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_clone_request_is_the_kernels() {
        assert_eq!(libc::FICLONE, 0x4004_9409);
    }
}

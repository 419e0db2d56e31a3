//! File handles: open an inode by the filesystem's identifier for it, without a path.
//!
//! Only handles that pleach builds from inode numbers are opened. `xfs` and `btrfs::logical` have their forms.
//!
//! Sources: open_by_handle_at(2), `include/linux/exportfs.h`.

use rustix::fs::OFlags;
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// The length of the longest handle that pleach builds.
const LONGEST: usize = 20;

/// `struct file_handle` with its bytes.
#[repr(C)]
struct FileHandle {
    bytes: u32,
    kind: i32,
    data: [u8; LONGEST],
}

const _: () = assert!(size_of::<FileHandle>() == 8 + LONGEST);

/// `open_by_handle_at(2)`: opens the inode with this handle. `mount` is any open file of its filesystem.
///
/// # Errors
/// `STALE` if the inode does not exist, `PERM` without `CAP_DAC_READ_SEARCH`, `INVAL` for a handle that is too long.
#[doc(alias = "open_by_handle_at")]
pub(super) fn open(mount: impl AsFd, kind: i32, data: &[u8], flags: OFlags) -> Result<OwnedFd> {
    let mut handle = FileHandle { bytes: data.len() as u32, kind, data: [0; LONGEST] };
    handle.data.get_mut(..data.len()).ok_or(Errno::INVAL)?.copy_from_slice(data);
    let mount = mount.as_fd().as_raw_fd();
    let flags = (flags | OFlags::CLOEXEC).bits() as libc::c_int;
    // SAFETY: the pointer points to a whole `file_handle` that outlives the call and holds as many bytes as it says.
    let fd = unsafe { libc::syscall(libc::SYS_open_by_handle_at, mount, std::ptr::from_mut(&mut handle), flags) };
    if fd < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    // SAFETY: the call has just made this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

//! FIDEDUPERANGE: the kernel compares ranges of files under locks and shares those that are equal. This is the only
//! caller of that ioctl.
//!
//! A call has at most 127 destinations, and each answer is translated to its meaning. The call changes where data is
//! stored, but never the content that a reader sees. The callers decide which ranges are worth submitting.

use crate::monitor::Skip;
use crate::sys::reflink::{self, DedupeStatus, MAX_DEDUPE_DESTINATIONS};
use rustix::fs::{Access, AtFlags, CWD, IFlags, StatVfsMountFlags, ioctl_getflags};
use rustix::io::Errno;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::sync::OnceLock;

/// The longest range of one call. Btrfs works in steps of this size; XFS holds its locks for the whole call.
pub const WINDOW: u64 = 16 << 20;

/// The start of a range: descriptor and offset. The length belongs to the request.
pub type Place<'fd> = (BorrowedFd<'fd>, u64);

/// Asks the kernel to compare `length` bytes at `source` with each destination, and to share equal ones. Returns for
/// each destination `None`, or why it was not shared. Long ranges are cut into windows. A destination drops out at its
/// first window that is not shared; its earlier windows stay shared.
///
/// Offsets are multiples of the filesystem's block size. `length` is too, unless both ranges end at the end of their
/// files.
pub fn submit(source: Place<'_>, length: u64, destinations: &[Place<'_>]) -> Vec<Option<Skip>> {
    let mut answers = vec![None; destinations.len()];
    let mut done = 0;
    while done < length {
        let step = WINDOW.min(length - done);
        let left: Vec<_> = (0..destinations.len()).filter(|&number| answers[number].is_none()).collect();
        if left.is_empty() {
            break;
        }
        for chunk in left.chunks(MAX_DEDUPE_DESTINATIONS) {
            let places: Vec<_> =
                chunk.iter().map(|&number| (destinations[number].0, destinations[number].1 + done)).collect();
            for (&number, answer) in chunk.iter().zip(call((source.0, source.1 + done), step, &places)) {
                answers[number] = answer;
            }
        }
        done += step;
    }
    answers
}

/// Makes one call.
fn call(source: Place<'_>, length: u64, destinations: &[Place<'_>]) -> Vec<Option<Skip>> {
    let statuses = loop {
        match reflink::dedupe(source.0, source.1, length, destinations) {
            Err(Errno::INTR) => {}
            Ok(statuses) => break statuses,
            Err(errno) => break vec![DedupeStatus::Failed(errno); destinations.len()],
        }
    };
    let meaning = |(status, place): (DedupeStatus, &Place<'_>)| match status {
        DedupeStatus::Failed(Errno::INVAL) => Some(invalid(source, length, *place)),
        DedupeStatus::Failed(Errno::PERM) if is_immutable(place.0) => Some(Skip::Immutable),
        status => of_status(status),
    };
    statuses.into_iter().zip(destinations).map(meaning).collect()
}

/// The meaning of an answer; `None`: the range is shared. For `EINVAL` and `EPERM` the files must be examined too.
fn of_status(status: DedupeStatus) -> Option<Skip> {
    match status {
        DedupeStatus::Same => None,
        DedupeStatus::Differs => Some(Skip::Differs),
        DedupeStatus::Failed(errno) => Some(of_errno(errno)),
    }
}

fn of_errno(errno: Errno) -> Skip {
    match errno {
        Errno::PERM | Errno::ACCESS => Skip::NoPermission,
        Errno::TXTBSY => Skip::SwapFile,
        Errno::ROFS => Skip::ReadOnly,
        Errno::AGAIN => Skip::Sending,
        Errno::XDEV => Skip::OtherFilesystem,
        Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS => Skip::Unsupported,
        Errno::IO => Skip::Unreadable,
        Errno::NOSPC | Errno::DQUOT => Skip::NoSpace,
        _ => Skip::Refused,
    }
}

/// A reason for the kernel to refuse this destination, found without calling FIDEDUPERANGE. `None`: only the call shows
/// it. `owner` is the user id of the file's owner.
pub fn obstacle(fd: BorrowedFd<'_>, owner: u32) -> Option<Skip> {
    if rustix::fs::fstatvfs(fd).is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY)) {
        return Some(Skip::ReadOnly);
    }
    if is_immutable(fd) {
        return Some(Skip::Immutable);
    }
    if is_swap(fd) {
        return Some(Skip::SwapFile);
    }
    let user = rustix::process::geteuid();
    // For root, access(2) refuses files of a read-only snapshot, but the kernel shares them.
    let is_own = user.is_root() || owner == user.as_raw();
    // Through the link in /proc: rustix has no call for a descriptor.
    let link = || format!("/proc/self/fd/{}", fd.as_raw_fd());
    let may_write = || rustix::fs::accessat(CWD, link(), Access::WRITE_OK, AtFlags::EACCESS).is_ok();
    (!is_own && !may_write()).then_some(Skip::NoPermission)
}

/// The reason for an `EINVAL`: a file that became shorter, one file of the two written in place, or a swap file.
fn invalid(source: Place<'_>, length: u64, destination: Place<'_>) -> Skip {
    let size = |fd| rustix::fs::fstat(fd).map_or(0, |stat| stat.st_size as u64);
    if size(source.0) < source.1 + length || size(destination.0) < destination.1 + length {
        return Skip::Changed;
    }
    match (is_nocow(source.0), is_nocow(destination.0)) {
        (one, other) if one != other => Skip::Nocow,
        // Btrfs allows only such files as swap, and refuses them with this error.
        (true, true) if is_swap(source.0) || is_swap(destination.0) => Skip::SwapFile,
        _ => Skip::Refused,
    }
}

/// Whether the file is written in place (`chattr +C`).
pub fn is_nocow(fd: BorrowedFd<'_>) -> bool {
    ioctl_getflags(fd).is_ok_and(|flags| flags.contains(IFlags::NOCOW))
}

fn is_immutable(fd: BorrowedFd<'_>) -> bool {
    ioctl_getflags(fd).is_ok_and(|flags| flags.contains(IFlags::IMMUTABLE))
}

/// Whether the file was in use as swap at the first such question of this process.
fn is_swap(fd: BorrowedFd<'_>) -> bool {
    static SWAPS: OnceLock<Vec<(u64, u64)>> = OnceLock::new();
    let swaps = SWAPS.get_or_init(swaps);
    !swaps.is_empty() && rustix::fs::fstat(fd).is_ok_and(|stat| swaps.contains(&(stat.st_dev, stat.st_ino)))
}

/// The inodes of the files in `/proc/swaps`.
fn swaps() -> Vec<(u64, u64)> {
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let paths = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let inode = |path: &str| std::fs::metadata(path.replace("\\040", " ")).ok().map(|meta| (meta.dev(), meta.ino()));
    paths.filter_map(inode).collect()
}

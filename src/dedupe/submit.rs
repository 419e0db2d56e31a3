//! The one place that hands ranges to the kernel: FIDEDUPERANGE, at most 127 destinations a call, each answer by its
//! meaning.
//!
//! The call changes what lies where, never what a reader sees: the kernel compares under locks. What is worth handing to
//! it is decided elsewhere.

use super::file::Opened;
use super::skip::Skip;
use crate::sys::reflink::{self, DedupeStatus, MAX_DEDUPE_DESTINATIONS};
use rustix::fs::{Access, AtFlags, CWD, IFlags, StatVfsMountFlags, ioctl_getflags};
use rustix::io::Errno;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::sync::OnceLock;

/// The longest range of one call: Btrfs works in steps of this size, XFS holds its locks for the length of a call.
pub const WINDOW: u64 = 16 << 20;

/// A range of a file: descriptor and offset. The length belongs to the request.
pub type Place<'fd> = (BorrowedFd<'fd>, u64);

/// Asks the kernel to compare `length` bytes from `source` on with each destination, and to share those that are equal:
/// for each destination `None`, or why it was not shared. Long ranges are cut into windows; a destination drops out at
/// the first window that is not shared, and what was shared of it before stays so.
///
/// Offsets are multiples of the filesystem's block; `length` is too, unless both ranges end at their file's end.
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

/// One call.
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
        status => Skip::of_status(status),
    };
    statuses.into_iter().zip(destinations).map(meaning).collect()
}

/// Why the kernel would refuse this destination whatever its data, as far as it can be told without a call.
pub fn obstacle(file: &Opened) -> Option<Skip> {
    let fd = file.as_fd();
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
    // Asked of root, a read-only snapshot would say no; the kernel lets it.
    let is_own = user.is_root() || file.status().uid == user.as_raw();
    // By its link, for rustix asks of no descriptor itself.
    let link = || format!("/proc/self/fd/{}", fd.as_raw_fd());
    let may_write = || rustix::fs::accessat(CWD, link(), Access::WRITE_OK, AtFlags::EACCESS).is_ok();
    (!is_own && !may_write()).then_some(Skip::NoPermission)
}

/// What stands behind an `EINVAL`: a file that became shorter, one of two that is written in place, a swap file.
fn invalid(source: Place<'_>, length: u64, destination: Place<'_>) -> Skip {
    let size = |fd| rustix::fs::fstat(fd).map_or(0, |stat| stat.st_size as u64);
    if size(source.0) < source.1 + length || size(destination.0) < destination.1 + length {
        return Skip::Changed;
    }
    match (is_nocow(source.0), is_nocow(destination.0)) {
        (one, other) if one != other => Skip::Nocow,
        // Btrfs takes only such files for swap, and refuses them so.
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

/// Whether it was in use as swap when the process began to ask.
fn is_swap(fd: BorrowedFd<'_>) -> bool {
    static SWAPS: OnceLock<Vec<(u64, u64)>> = OnceLock::new();
    let swaps = SWAPS.get_or_init(swaps);
    !swaps.is_empty() && rustix::fs::fstat(fd).is_ok_and(|stat| swaps.contains(&(stat.st_dev, stat.st_ino)))
}

/// The inodes that `/proc/swaps` names.
fn swaps() -> Vec<(u64, u64)> {
    let swaps = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let paths = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let inode = |path: &str| std::fs::metadata(path.replace("\\040", " ")).ok().map(|meta| (meta.dev(), meta.ino()));
    paths.filter_map(inode).collect()
}

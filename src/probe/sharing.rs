//! Questions on sharing: clones, dedupe, extent maps, and the behaviour of the kernel's own copy.

use super::answer::{Answer, CopyFileRange, Dedupe, Reflink, Reply, ReverseMap};
use super::place::{LENGTH, Place, fill, read_only};
use crate::extents::extent::{Extent, ExtentFlags};
use crate::fs::filesystem::Kind;
use crate::sys::reflink::{self, DedupeStatus};
use crate::sys::{self, xfs};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::os::fd::{AsFd as _, OwnedFd};

pub(super) fn reflink(place: &Place) -> Reply {
    let (source, copy) = (place.filled()?, place.file()?);
    Ok(Some(Answer::Reflink(match reflink::clone(&source, &copy) {
        Ok(()) if is_shared(&copy) == Some(false) => Reflink::NotShared,
        Ok(()) => Reflink::Shared,
        Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => return Err(errno),
        Err(_) => Reflink::Refused,
    })))
}

pub(super) fn dedupe(place: &Place) -> Reply {
    let (source, copy) = (place.filled()?, place.filled()?);
    // Open for reading only, which is enough for the owner and for root.
    let destination = read_only(&copy)?;
    let done = match reflink::dedupe(&source, 0, LENGTH, &[(destination.as_fd(), 0)]) {
        // The call can succeed and still refuse the one destination (overlayfs), so both results are checked.
        Ok(statuses) => statuses.first() == Some(&DedupeStatus::Same) && is_shared(&copy) != Some(false),
        Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => return Err(errno),
        Err(_) => false,
    };
    Ok(Some(Answer::Dedupe(match done {
        true if rustix::process::geteuid().is_root() => Dedupe::AllFiles,
        true => Dedupe::OwnFiles,
        false => Dedupe::Impossible,
    })))
}

pub(super) fn fiemap(place: &Place) -> Reply {
    let file = place.filled()?;
    Ok(Some(Answer::Fiemap(extents(&file).is_some())))
}

pub(super) fn reverse_map(place: &Place) -> Reply {
    Ok(Some(Answer::ReverseMap(match place.kind {
        Kind::Xfs if xfs::geometry(place)?.reverse_map => ReverseMap::Present,
        Kind::Xfs => ReverseMap::Missing,
        Kind::Btrfs => ReverseMap::Present,
        _ => ReverseMap::Unsupported,
    })))
}

pub(super) fn copy_file_range(place: &Place) -> Reply {
    let (source, copy) = (sparse(place)?, place.file()?);
    Ok(Some(Answer::CopyFileRange(match copy_all(&source, &copy) {
        Ok(()) if is_shared(&copy) == Some(true) => CopyFileRange::Clones,
        Ok(()) => CopyFileRange::Copies,
        Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => return Err(errno),
        Err(_) => CopyFileRange::Fails,
    })))
}

pub(super) fn copy_keeps_holes(place: &Place) -> Reply {
    let (source, copy) = (sparse(place)?, place.file()?);
    match copy_all(&source, &copy) {
        Ok(()) => {}
        Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => return Err(errno),
        Err(_) => return Ok(None),
    }
    let hole = rustix::fs::seek(&copy, SeekFrom::Hole(0))?;
    Ok(Some(Answer::CopyKeepsHoles(hole < HOLE_END)))
}

/// The layout: data, a hole that ends here, data.
const HOLE_END: u64 = 1 << 20;

fn sparse(place: &Place) -> rustix::io::Result<OwnedFd> {
    let file = place.filled()?;
    fill(&file, HOLE_END)?;
    Ok(file)
}

fn copy_all(source: &OwnedFd, copy: &OwnedFd) -> rustix::io::Result<()> {
    let (mut from, mut to) = (0, 0);
    while from < HOLE_END + LENGTH {
        let left = (HOLE_END + LENGTH - from) as usize;
        if rustix::fs::copy_file_range(source, Some(&mut from), copy, Some(&mut to), left)? == 0 {
            return Err(Errno::IO);
        }
    }
    Ok(())
}

/// The extents, if the filesystem supports extent maps.
fn extents(file: &OwnedFd) -> Option<Vec<Extent>> {
    sys::fiemap::extents(file, true).take(64).collect::<Result<_, _>>().ok()
}

/// Whether the whole file is shared; `None` if that cannot be determined.
fn is_shared(file: &OwnedFd) -> Option<bool> {
    let extents = extents(file)?;
    Some(!extents.is_empty() && extents.iter().all(Extent::is_shared))
}

/// Whether some of the file is allocated but unwritten; `None` if that cannot be determined.
pub(super) fn has_unwritten(file: &OwnedFd) -> Option<bool> {
    Some(extents(file)?.iter().any(|extent| extent.flags.contains(ExtentFlags::UNWRITTEN)))
}

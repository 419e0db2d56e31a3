//! Questions on sharing: clones, dedupe, extent maps, and the behaviour of the kernel's own copy.

use super::answer::{Answer, Reply, Value};
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
    Ok(Some(match reflink::clone(&source, &copy) {
        Ok(()) => Answer::flag(
            is_shared(&copy) != Some(false),
            "files can share their data: snapshots and copies here take no space until they change",
            "a clone succeeds and shares nothing: every copy takes its full space",
        ),
        Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => return Err(errno),
        Err(_) => {
            Answer::flag(false, "", "files cannot share data: every snapshot and every copy takes its full space")
        }
    }))
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
    let means_yes = match rustix::process::geteuid().is_root() {
        true => "equal data can be made to share its space afterwards, in all files",
        false => "equal data can be made to share its space afterwards, in files you own or may write to",
    };
    Ok(Some(Answer::flag(done, means_yes, "equal files cannot be made to share their data afterwards")))
}

pub(super) fn fiemap(place: &Place) -> Reply {
    let file = place.filled()?;
    Ok(Some(Answer::flag(
        extents(&file).is_some(),
        "where files lie, and what of them is shared, can be seen (pleach fiemap)",
        "where files lie cannot be seen: what is shared can be neither shown nor counted",
    )))
}

pub(super) fn reverse_map(place: &Place) -> Reply {
    let has_map = match place.kind {
        Kind::Xfs => xfs::geometry(place)?.reverse_map,
        Kind::Btrfs => true,
        _ => false,
    };
    let means_no = match place.kind {
        Kind::Xfs => {
            "who holds a block is found by looking at every file (fiemap --owners); mkfs.xfs -m rmapbt=1 makes a map"
        }
        _ => "who holds a block cannot be asked here",
    };
    Ok(Some(Answer::flag(has_map, "who holds a block is known at once (fiemap --owners, root only)", means_no)))
}

pub(super) fn copy_file_range(place: &Place) -> Reply {
    let (source, copy) = (sparse(place)?, place.file()?);
    let answer = |word: &str, means: &str| Answer::new(Value::Text(word.to_string()), means);
    Ok(Some(match copy_all(&source, &copy) {
        Ok(()) if is_shared(&copy) == Some(true) => {
            answer("clones", "programs that let the kernel copy (cp) share the data without being asked")
        }
        Ok(()) => answer("copies", "the kernel can copy for a program, and nothing is shared by it"),
        Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => return Err(errno),
        Err(_) => answer("fails", "the kernel does not copy here: data is read and written"),
    }))
}

pub(super) fn copy_keeps_holes(place: &Place) -> Reply {
    let (source, copy) = (sparse(place)?, place.file()?);
    match copy_all(&source, &copy) {
        Ok(()) => {}
        Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => return Err(errno),
        Err(_) => return Ok(None),
    }
    let hole = rustix::fs::seek(&copy, SeekFrom::Hole(0))?;
    Ok(Some(Answer::flag(
        hole < HOLE_END,
        "sparse files stay sparse where the kernel copies them",
        "the kernel's copy fills holes with zeros: a program has to go around them, as pleach does",
    )))
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

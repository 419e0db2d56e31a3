//! What one file holds, by its status and its extent map.

use super::device::Volume;
use crate::error::Error;
use crate::extents::extent::ExtentFlags;
use crate::fs::filesystem::Kind;
use crate::fs::openat;
use crate::fs::status::Status;
use crate::sys::fiemap;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// An inode that was looked at.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    pub(super) inode: u64,
    pub(super) links: u64,
    pub(super) is_file: bool,
    pub(super) size: u64,
    /// What it takes on the disk.
    pub(super) disk: u64,
    /// What of that is certainly its own alone, as the kernel says.
    pub(super) own: u64,
    /// What of `own` may be less on the disk, since it is compressed.
    pub(super) encoded: u64,
    pub(super) extents: u64,
    pub(super) inline: u64,
    /// Some of it is compressed, shared or not.
    pub(super) is_encoded: bool,
    /// Its ranges that the kernel calls shared.
    pub(super) shared: Vec<Range<u64>>,
}

impl Mapped {
    /// An inode that has no extents to ask for: what it takes on the disk, if anything, is its own alone.
    pub(super) fn plain(volume: &Volume, status: &Status) -> Mapped {
        let mapped = Mapped::unknown(volume, status);
        let own = if volume.lacks_maps() { 0 } else { mapped.disk };
        Mapped { own, ..mapped }
    }

    /// An inode whose extents cannot be learnt: it takes what its status says, and whether alone is not known.
    pub(super) fn unknown(volume: &Volume, status: &Status) -> Mapped {
        let is_file = status.file_type() == FileType::RegularFile;
        let size = if is_file { status.size } else { 0 };
        // Only files have data on Btrfs; all else lies in its trees.
        let disk = if is_file || volume.kind != Kind::Btrfs { status.allocated } else { 0 };
        Mapped { inode: status.ino, links: status.nlink, is_file, size, disk, ..Mapped::default() }
    }
}

/// Whether there can be extents: an empty file has none, and one without blocks has none but inline ones.
pub(super) fn has_extents(volume: &Volume, status: &Status) -> bool {
    let has_data = status.allocated > 0 || (volume.kind == Kind::Btrfs && status.size > 0);
    status.file_type() == FileType::RegularFile && has_data
}

/// Opens a regular file that was seen with this status.
pub(super) fn open(directory: impl AsFd, name: &[u8], status: &Status) -> rustix::io::Result<OwnedFd> {
    let fd = openat::open_file(directory.as_fd(), name)?;
    let found = rustix::fs::fstat(&fd)?;
    if (found.st_dev, found.st_ino) == (status.dev, status.ino) { Ok(fd) } else { Err(Errno::STALE) }
}

/// Asks for the extents of an open file.
///
/// # Errors
/// `OPNOTSUPP` where the filesystem keeps no maps.
pub(super) fn map(volume: &Volume, fd: impl AsFd, status: &Status) -> rustix::io::Result<Mapped> {
    let mut mapped = Mapped::unknown(volume, status);
    let (mut plain, mut shared) = (0, 0);
    for extent in fiemap::extents(fd, false) {
        let extent = extent?;
        let is_encoded = extent.flags.contains(ExtentFlags::ENCODED);
        let Some(physical) = extent.physical else {
            if extent.flags.contains(ExtentFlags::DATA_INLINE) {
                mapped.inline += extent.length;
            }
            continue;
        };
        mapped.extents += 1;
        mapped.is_encoded |= is_encoded;
        if extent.is_shared() {
            shared += extent.length;
            mapped.shared.push(physical..end(physical, extent.length));
        } else {
            plain += extent.length;
            mapped.encoded += if is_encoded { extent.length } else { 0 };
        }
    }
    if volume.kind == Kind::Btrfs {
        // Its count of blocks has delayed and inline data in it, and nothing that the map has not.
        mapped.disk = plain + shared;
        mapped.own = plain;
    } else {
        // Blocks of the map itself and of attributes are the file's alone, and stand in no map.
        mapped.own = mapped.disk.saturating_sub(shared);
    }
    Ok(mapped)
}

/// The end of a range, whatever its length is said to be.
pub(super) fn end(start: u64, length: u64) -> u64 {
    start.saturating_add(length)
}

/// An error of one file; `None` if the whole filesystem has it and it was reported before.
pub(super) fn problem(volume: &Volume, path: PathBuf, errno: Errno) -> Option<Error> {
    match errno {
        Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS => {
            let is_news = !volume.is_refused.swap(true, Ordering::Relaxed);
            is_news.then(|| {
                Error::failed("tell what is shared on the filesystem of").at(path).because(Errno::OPNOTSUPP).hint(
                    format!(
                        "{} keeps no extent maps: its files count on disk by their blocks, and not as exclusive, \
                         shared or freed",
                        volume.kind
                    ),
                )
            })
        }
        errno => Some(Error::io("map", path, errno)),
    }
}

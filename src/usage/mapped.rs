//! The extents of one file, from its status and its extent map.

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

/// An inode that was examined.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    pub(super) inode: u64,
    pub(super) links: u64,
    pub(super) is_file: bool,
    pub(super) size: u64,
    /// The bytes it takes on the disk.
    pub(super) disk: u64,
    /// The part of `disk` that is certainly its own alone, according to the kernel.
    pub(super) own: u64,
    /// The number of extents in `own`, and the bytes in `own` that are in none of them.
    pub(super) own_extents: u64,
    pub(super) unmapped: u64,
    /// The part of `own` that may take less on the disk, since it is compressed.
    pub(super) encoded: u64,
    pub(super) extents: u64,
    pub(super) inline: u64,
    /// Some of it is compressed, shared or not.
    pub(super) is_encoded: bool,
    /// Its ranges that the kernel marks as shared.
    pub(super) shared: Vec<Range<u64>>,
}

impl Mapped {
    /// An inode without extents to map. The bytes it takes on the disk, if any, are its own alone.
    pub(super) fn plain(volume: &Volume, status: &Status) -> Mapped {
        let mapped = Mapped::unknown(volume, status);
        let own = if volume.lacks_maps() { 0 } else { mapped.disk };
        Mapped { own, unmapped: own, ..mapped }
    }

    /// An inode with extents that cannot be read. It takes the bytes in its status, and whether it shares them is
    /// unknown.
    pub(super) fn unknown(volume: &Volume, status: &Status) -> Mapped {
        let is_file = status.file_type() == FileType::RegularFile;
        let size = if is_file { status.size } else { 0 };
        // Only files have data on Btrfs; everything else is in its trees.
        let disk = if is_file || volume.kind != Kind::Btrfs { status.allocated } else { 0 };
        Mapped { inode: status.ino, links: status.nlink, is_file, size, disk, ..Mapped::default() }
    }
}

/// Whether there can be extents: an empty file has none, and a file without blocks has none except inline ones.
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

/// Maps the extents of an open file.
///
/// # Errors
/// `OPNOTSUPP` if the filesystem keeps no maps.
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
            mapped.own_extents += 1;
            mapped.encoded += if is_encoded { extent.length } else { 0 };
        }
    }
    if volume.kind == Kind::Btrfs {
        // Its block count includes delayed and inline data, and nothing that the map lacks.
        mapped.disk = plain + shared;
        mapped.own = plain;
    } else {
        // Blocks of the map itself and of attributes belong to the file alone, and are not in the map.
        mapped.own = mapped.disk.saturating_sub(shared);
        mapped.unmapped = mapped.own.saturating_sub(plain);
        // The map counts the content of compressed extents, and the status their blocks. The file may also have grown.
        mapped.encoded = mapped.encoded.min(mapped.own);
    }
    Ok(mapped)
}

/// The end of a range, for any reported length.
pub(super) fn end(start: u64, length: u64) -> u64 {
    start.saturating_add(length)
}

/// An error of one file; `None` if the whole filesystem has it and it was reported before.
pub(super) fn problem(volume: &Volume, path: PathBuf, errno: Errno) -> Option<Error> {
    match errno {
        Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS => {
            let is_news = !volume.is_refused.swap(true, Ordering::Relaxed);
            is_news.then(|| {
                Error::failed("find shared data on the filesystem of").at(path).because(Errno::OPNOTSUPP).hint(format!(
                    "{} keeps no extent maps: its files count on disk by their blocks, and not as exclusive, \
                         shared or freed",
                    volume.kind
                ))
            })
        }
        errno => Some(Error::io("map", path, errno)),
    }
}

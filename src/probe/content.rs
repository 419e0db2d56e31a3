//! Questions on the content of files: holes, preallocated space, unnamed files, direct I/O.

use super::answer::{Answer, DirectIo, Reply};
use super::place::{LENGTH, Place, fill};
use super::sharing::has_unwritten;
use crate::fs::filesystem;
use rustix::fs::{AtFlags, FallocateFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;

/// `STATX_DIOALIGN` of `linux/stat.h`, since Linux 6.1.
const STATX_DIOALIGN: u32 = 0x2000;

pub(super) fn holes(place: &Place) -> Reply {
    let file = place.file()?;
    fill(&file, 1 << 20)?;
    let data = rustix::fs::seek(&file, SeekFrom::Data(0));
    Ok(Some(Answer::Holes(data.is_ok_and(|offset| offset > 0))))
}

pub(super) fn punch_hole(place: &Place) -> Reply {
    let file = place.filled()?;
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(Some(Answer::PunchHole(rustix::fs::fallocate(&file, mode, 0, LENGTH).is_ok())))
}

pub(super) fn unwritten(place: &Place) -> Reply {
    let file = place.file()?;
    let done = match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, LENGTH) {
        Ok(()) => has_unwritten(&file) != Some(false),
        Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => return Err(errno),
        Err(_) => false,
    };
    Ok(Some(Answer::Unwritten(done)))
}

pub(super) fn unnamed_files(place: &Place) -> Reply {
    let can = match filesystem::unnamed(place) {
        Ok(_) => true,
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => false,
        Err(errno) => return Err(errno),
    };
    Ok(Some(Answer::UnnamedFiles(can)))
}

pub(super) fn direct_io(place: &Place) -> Reply {
    let file = place.filled()?;
    let mask = StatxFlags::from_bits_retain(STATX_DIOALIGN);
    let statx = rustix::fs::statx(&file, c"", AtFlags::EMPTY_PATH, mask)?;
    Ok(Some(Answer::DirectIo(match statx.stx_dio_offset_align {
        _ if statx.stx_mask & STATX_DIOALIGN == 0 => DirectIo::Unknown,
        0 => DirectIo::Unsupported,
        align => DirectIo::Aligned(align),
    })))
}

//! Questions on the content of files: holes, preallocated space, unnamed files, direct I/O.

use super::answer::{Answer, Reply, Value};
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
    Ok(Some(Answer::flag(
        data.is_ok_and(|offset| offset > 0),
        "holes take no space and are found without reading them",
        "holes are not told from zeros: sparse files are read as a whole",
    )))
}

pub(super) fn punch_hole(place: &Place) -> Reply {
    let file = place.filled()?;
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(Some(Answer::flag(
        rustix::fs::fallocate(&file, mode, 0, LENGTH).is_ok(),
        "ranges of zeros in a file can be given back as holes",
        "space within a file cannot be given back",
    )))
}

pub(super) fn unwritten(place: &Place) -> Reply {
    let file = place.file()?;
    let done = match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, LENGTH) {
        Ok(()) => has_unwritten(&file) != Some(false),
        Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => return Err(errno),
        Err(_) => false,
    };
    Ok(Some(Answer::flag(
        done,
        "space can be reserved for a file before it is written",
        "space cannot be reserved for a file without writing it",
    )))
}

pub(super) fn unnamed_files(place: &Place) -> Reply {
    let can = match filesystem::unnamed(place) {
        Ok(_) => true,
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => false,
        Err(errno) => return Err(errno),
    };
    Ok(Some(Answer::flag(
        can,
        "a file can be made without a name and appear complete (O_TMPFILE)",
        "new files have a temporary name until they are complete",
    )))
}

pub(super) fn direct_io(place: &Place) -> Reply {
    let file = place.filled()?;
    let mask = StatxFlags::from_bits_retain(STATX_DIOALIGN);
    let statx = rustix::fs::statx(&file, c"", AtFlags::EMPTY_PATH, mask)?;
    Ok(Some(match statx.stx_dio_offset_align {
        _ if statx.stx_mask & STATX_DIOALIGN == 0 => {
            Answer::text("not told", "the kernel does not say how direct I/O must be aligned here")
        }
        0 => Answer::flag(false, "", "all reading and writing goes through the page cache"),
        align => Answer::new(
            Value::Bytes(align.into()),
            "past the page cache, in offsets and lengths that are multiples of this",
        ),
    }))
}

//! Updates a clone of the base to the content of the source, or fills an empty file. The source is read once, and only
//! differing blocks are written, adjacent blocks with one call.

use super::list::NewList;
use super::look::{Base, Look, Options, grain};
use super::windows::{Window, compare};
use crate::content::copy::CopyError;
use crate::content::hash::tree::{WINDOW, Whole};
use crate::extents::ranges::Bytes;
use crate::fs::cow_extent_hint::CowExtentHint;
use crate::fs::direct_io::Once;
use crate::fs::pread::{write_all, write_zeros};
use rustix::fs::{Advice, FallocateFlags, SeekFrom, fadvise, fallocate, ftruncate, seek};
use rustix::io::{Errno, Result};
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of windows after which writeback of their data starts.
const AHEAD: u64 = 32;

/// The result, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Updated {
    /// Data of the source.
    pub data: u64,
    /// Holes and never-written ranges of the source.
    pub holes: u64,
    /// Data written. The rest is shared with the base.
    pub written: u64,
    /// Data read from the source.
    pub read: u64,
    /// Data read from the base to compare.
    pub base_read: u64,
    /// BLAKE3 of the content, if requested.
    pub hash: Option<[u8; 32]>,
}

/// Makes the first `size` bytes of `source` the content of `destination`, which is a clone of the base, or empty if
/// there is no base.
///
/// If the source has become shorter, zeros replace the missing part; the caller compares its status before and after.
///
/// # Errors
/// Errors of the kernel, with the side that failed; `CANCELED` when the monitor asks to stop. A list that cannot be
/// written is not an error.
pub fn update(
    source: BorrowedFd<'_>,
    size: u64,
    base: Option<&Base<'_>>,
    destination: BorrowedFd<'_>,
    list: Option<&NewList>,
    options: &Options<'_>,
) -> std::result::Result<Updated, CopyError> {
    let hint = base.and_then(|_| CowExtentHint::begin(destination, options.block));
    let result = Filling { source, size, base, destination, list, options }.run();
    if let Some(hint) = hint {
        hint.end(destination).map_err(CopyError::Destination)?;
    }
    result
}

/// A file that is being updated.
struct Filling<'a> {
    source: BorrowedFd<'a>,
    size: u64,
    base: Option<&'a Base<'a>>,
    destination: BorrowedFd<'a>,
    list: Option<&'a NewList>,
    options: &'a Options<'a>,
}

impl Filling<'_> {
    fn run(&self) -> std::result::Result<Updated, CopyError> {
        let Filling { source: file, size, base, destination, list, options } = *self;
        if base.is_none_or(|base| base.size != size) {
            ftruncate(destination, size).map_err(CopyError::Destination)?;
        }
        let (data, written) = (AtomicU64::new(0), AtomicU64::new(0));
        let each = |window: &Window<'_>| {
            self.write(window, &written).map_err(CopyError::Destination)?;
            data.fetch_add(crate::extents::ranges::length(window.data), Ordering::Relaxed);
            if let Some(list) = list {
                list.write(window.number, window.values);
            }
            Ok(())
        };
        let grain = grain(list, base);
        let once = Once::begin(file, 0..size);
        let look =
            Look { file, size, base, grain, once: &once, compared_again: false, dense: Mutex::default(), options };
        let mut whole = Whole::default();
        let read = compare(&look, &(0..size), &[], &mut whole, &each)?;
        let hash = whole.finish();
        if let Some((list, hash)) = list.zip(hash.as_ref()) {
            list.finish(hash);
        }
        let data = data.into_inner();
        Ok(Updated {
            data,
            holes: size - data,
            written: written.into_inner(),
            read: read.file,
            base_read: read.base,
            hash,
        })
    }

    /// Writes the differing parts of a window.
    fn write(&self, window: &Window<'_>, written: &AtomicU64) -> Result<()> {
        for hole in window.holes {
            self.punch(hole)?;
        }
        for range in window.differing {
            write_all(self.destination, window.content(range), range.start)?;
            written.fetch_add(range.end - range.start, Ordering::Relaxed);
        }
        if window.number % AHEAD == AHEAD - 1 {
            // The kernel starts to write while the next windows are read, and not only at the sync.
            let from = window.offset + WINDOW - AHEAD * WINDOW;
            let _ = fadvise(self.destination, from, NonZeroU64::new(AHEAD * WINDOW), Advice::DontNeed);
        }
        Ok(())
    }

    /// Makes a hole where the base has data and the source has none.
    fn punch(&self, hole: &Bytes) -> Result<()> {
        let Some(base) = self.base else { return Ok(()) };
        let is_hole = match seek(base.file, SeekFrom::Data(hole.start)) {
            Ok(data) => data >= hole.end,
            Err(errno) => errno == Errno::NXIO,
        };
        if is_hole {
            return Ok(());
        }
        // The last block is freed only if all of it is punched.
        let end = if hole.end == self.size { hole.end.next_multiple_of(self.options.block) } else { hole.end };
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(self.destination, how, hole.start, end - hole.start) {
            Err(Errno::OPNOTSUPP) => write_zeros(self.destination, hole.clone()),
            result => result,
        }
    }
}

//! Reads a file once, in windows, with several threads, and reports for each window which blocks differ from the base.
//! Blocks that are known to equal the base are read only for the hash, and not at all if the base has a list of hashes.

use super::list::List;
use super::look::{Base, Look};
use crate::content::copy::CopyError;
use crate::content::hash::tree::{self, Subtree, WINDOW, Whole};
use crate::extents::extent::ExtentFlags;
use crate::extents::ranges::{self, Bytes};
use crate::fs::direct_io::{Aligned, read_once};
use crate::fs::pread::read_full;
use crate::fs::sparse::{self, Segment};
use crate::monitor::Amount;
use crate::sys::fiemap;
use crate::util::mutex::{self, lock};
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, Result};
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;

/// A compared window.
pub(super) struct Window<'w> {
    pub(super) number: u64,
    /// The offset in the file.
    pub(super) offset: u64,
    /// The content; only what differs is sure to have been read.
    bytes: &'w [u8],
    /// The data of the file, in whole blocks.
    pub(super) data: &'w [Bytes],
    /// The holes.
    pub(super) holes: &'w [Bytes],
    /// The blocks of data that differ from the base; adjacent blocks are joined.
    pub(super) differing: &'w [Bytes],
    /// The values of the grains, if hashed.
    pub(super) values: &'w [Subtree],
}

impl Window<'_> {
    /// The content of a range that is inside the window.
    pub(super) fn content(&self, range: &Bytes) -> &[u8] {
        let at = |offset: u64| (offset.saturating_sub(self.offset) as usize).min(self.bytes.len());
        &self.bytes[at(range.start)..at(range.end)]
    }
}

/// Data read for a comparison, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) file: u64,
    pub(super) base: u64,
}

/// Compares the windows of a range and passes each to `each`, in any order. The range starts at a window and ends at a
/// window or at the end of the file. Ranges in `alike` are known to equal the base. If the content is hashed, the
/// values of the windows are added to `whole`. Otherwise windows without data in the file and the base are skipped, so
/// that the work depends on the data.
pub(super) fn compare(
    look: &Look<'_>,
    range: &Bytes,
    alike: &[Bytes],
    whole: &mut Whole,
    each: &(dyn Fn(&Window<'_>) -> std::result::Result<(), CopyError> + Sync),
) -> std::result::Result<Read, CopyError> {
    // Several threads read whole windows. The readahead of the kernel would get in their way.
    let _ = fadvise(look.file, range.start, NonZeroU64::new(range.end - range.start), Advice::Random);
    if let Some(base) = look.base {
        let _ = fadvise(base.file, range.start, NonZeroU64::new(range.end - range.start), Advice::Random);
    }
    let first = range.start / WINDOW;
    let count = (range.end - range.start).div_ceil(WINDOW);
    let run = Run { look, alike, each, next: Mutex::new(first), end: first + count };
    let shared = Mutex::new((Read::default(), whole, None));
    let work = || {
        let mut worker = Worker::default();
        let result = run.work(&mut worker, |number, value| lock(&shared).1.add(number, value));
        let mut shared = lock(&shared);
        shared.0.file += worker.read.file;
        shared.0.base += worker.read.base;
        if let Err(error) = result {
            *lock(&run.next) = run.end;
            shared.2.get_or_insert(error);
        }
    };
    let helpers = look.options.threads.min(usize::try_from(count).unwrap_or(usize::MAX)).saturating_sub(1);
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            // Without a helper the other threads do its part.
            let _ = std::thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let (read, _, error) = mutex::into_inner(shared);
    match error {
        Some(error) => Err(error),
        None => Ok(read),
    }
}

/// A comparison. Each thread takes the next window.
struct Run<'a> {
    look: &'a Look<'a>,
    alike: &'a [Bytes],
    each: &'a (dyn Fn(&Window<'_>) -> std::result::Result<(), CopyError> + Sync),
    /// The next window, and the end of the windows.
    next: Mutex<u64>,
    end: u64,
}

/// Buffers that a thread reuses for each window.
#[derive(Default)]
struct Worker {
    bytes: Aligned,
    base: Vec<u8>,
    /// The values of the grains of the base.
    known: Vec<Subtree>,
    values: Vec<Subtree>,
    read: Read,
}

impl Run<'_> {
    fn work(&self, worker: &mut Worker, hashed: impl Fn(u64, Subtree)) -> std::result::Result<(), CopyError> {
        while let Some(number) = self.claim().map_err(CopyError::Source)? {
            if self.look.options.monitor.is_cancelled() {
                return Err(CopyError::Source(Errno::CANCELED));
            }
            if let Some(value) = self.window(number, worker)? {
                hashed(number, value);
            }
        }
        Ok(())
    }

    /// Takes the next window. Without a hash, windows without data in the file and the base are skipped.
    fn claim(&self) -> Result<Option<u64>> {
        let mut next = lock(&self.next);
        let from = *next;
        if !self.look.options.hashed && from < self.end {
            let offset = from * WINDOW;
            *next = self.look.next_data(offset)?.map_or(self.end, |data| (data / WINDOW).clamp(from, self.end));
            let passed = (*next * WINDOW).min(self.look.size).saturating_sub(offset);
            self.look.options.monitor.advance(Amount { files: 0, bytes: passed });
        }
        let number = *next;
        *next = number.saturating_add(1).min(self.end);
        Ok((number < self.end).then_some(number))
    }

    fn window(&self, number: u64, worker: &mut Worker) -> std::result::Result<Option<Subtree>, CopyError> {
        let Look { size, options, .. } = *self.look;
        let offset = number * WINDOW;
        let all = offset..(offset + WINDOW).min(size);
        let data = self.look.data(&all).map_err(CopyError::Source)?;
        let holes = ranges::subtract(std::slice::from_ref(&all), &data);
        let unknown = ranges::subtract(&data, self.alike);
        let stays = self.look.stays(&data, &unknown);
        let has_list = self.load_known(number, worker);
        let wanted = match options.hashed {
            false => unknown.clone(),
            true if has_list => self.grains(&all, &unknown, &holes).map_err(CopyError::Source)?,
            true => vec![all.clone()],
        };
        worker.bytes.resize(if wanted.is_empty() { 0 } else { (all.end - all.start) as usize });
        let bytes = worker.bytes.bytes_mut();
        let within = |range: &Bytes| (range.start - offset) as usize..(range.end - offset) as usize;
        for part in &wanted {
            ranges::within(&holes, part).for_each(|hole| bytes[within(&hole)].fill(0));
            for range in ranges::within(&data, part) {
                let got = self.look.read(&mut bytes[within(&range)], range.start, stays).map_err(CopyError::Source)?;
                worker.read.file += got as u64;
            }
        }
        let hash = options.hashed.then(|| self.hash(&all, &wanted, worker));
        let differing = match self.look.base {
            Some(base) => self.differing(base, offset, &unknown, stays, worker),
            None => unknown,
        };
        let window = Window {
            number,
            offset,
            bytes: worker.bytes.bytes(),
            data: &data,
            holes: &holes,
            differing: &differing,
            values: &worker.values,
        };
        (self.each)(&window)?;
        options.monitor.advance(Amount { files: 0, bytes: all.end - all.start });
        Ok(hash)
    }

    /// Reads the values of a window's grains in the base, if there is a list and the file is hashed in the same grains.
    fn load_known(&self, number: u64, worker: &mut Worker) -> bool {
        let Look { base, grain, size, options, .. } = *self.look;
        let fits = |list: &&List| options.hashed && list.grain() == grain && size > WINDOW;
        let list = base.and_then(|base| base.list).filter(fits);
        let found = list.is_some_and(|list| list.window(number, &mut worker.known).is_some());
        if !found {
            worker.known.clear();
        }
        found
    }

    /// The grains of a window with values that the base's list does not have: the file or the base has data there that
    /// is not known to be equal, or only one of them has the whole grain.
    fn grains(&self, all: &Bytes, unknown: &[Bytes], holes: &[Bytes]) -> Result<Vec<Bytes>> {
        let Look { size, base, grain, .. } = *self.look;
        let grain = grain as u64;
        let mut changed = unknown.to_vec();
        if let Some(base) = base {
            for hole in holes {
                for segment in sparse::within(base.file, hole.start..base.size.min(hole.end).max(hole.start)) {
                    if let Segment::Data { offset, length } = segment? {
                        changed.push(offset.max(hole.start)..(offset + length).min(hole.end));
                    }
                }
            }
            if base.size != size {
                let common = base.size.min(size) / grain * grain;
                changed.push(common.clamp(all.start, all.end)..all.end);
            }
        }
        let whole = |range: &Bytes| range.start / grain * grain..range.end.next_multiple_of(grain).min(all.end);
        Ok(ranges::list(changed.iter().filter(|range| !range.is_empty()).map(whole).collect()))
    }

    /// Hashes the grains that were read, takes the values of the others from the base, and returns the value of the
    /// window.
    fn hash(&self, all: &Bytes, wanted: &[Bytes], worker: &mut Worker) -> Subtree {
        let Look { size, grain, .. } = *self.look;
        let length = (all.end - all.start) as usize;
        worker.values.clone_from(&worker.known);
        worker.values.resize(length.div_ceil(grain), Subtree::default());
        let bytes = worker.bytes.bytes();
        for range in wanted {
            let at = (range.start - all.start) as usize;
            let read = tree::grains(&bytes[at..(range.end - all.start) as usize], range.start, grain);
            worker.values[at / grain..].iter_mut().zip(read).for_each(|(value, read)| *value = read);
        }
        // An only window is always read whole.
        if size <= WINDOW {
            return tree::window(bytes, all.start, size);
        }
        tree::merge(&worker.values, length as u64, grain as u64)
    }

    /// The blocks of `unknown` that differ from the base. `stays`: data that is read must stay in memory.
    fn differing(
        &self,
        base: &Base<'_>,
        offset: u64,
        unknown: &[Bytes],
        stays: bool,
        worker: &mut Worker,
    ) -> Vec<Bytes> {
        let Look { size, grain, options, .. } = *self.look;
        let block = options.block;
        let (known, values) = (&worker.known, &worker.values);
        let (mut differing, mut doubtful, mut equal) = (Vec::new(), Vec::new(), Vec::new());
        if !known.is_empty() {
            let unit = block.max(grain as u64);
            for range in unknown {
                for part in pieces(range, unit) {
                    let grains = (part.start / unit * unit - offset) as usize / grain;
                    let grains = grains..(grains + unit as usize / grain).min(values.len());
                    if known.get(grains.clone()) == values.get(grains) {
                        ranges::push(&mut equal, part);
                    } else if unit == block {
                        ranges::push(&mut differing, part);
                    } else {
                        ranges::push(&mut doubtful, part);
                    }
                }
            }
        } else {
            doubtful = unknown.to_vec();
        }
        let content = |bytes: &[u8], range: &Bytes| -> std::ops::Range<usize> {
            let at = |to: u64| ((to - offset) as usize).min(bytes.len());
            at(range.start)..at(range.end)
        };
        let all = worker.bytes.bytes();
        let mut hole = (0..0, false);
        for range in &equal {
            for part in pieces(range, block) {
                let bytes = &all[content(all, &part)];
                if is_zero(bytes) && is_hole(base.file, &part, &mut hole) {
                    ranges::push(&mut differing, part);
                }
            }
        }
        for range in &doubtful {
            let there = range.start..range.end.min(base.size.max(range.start));
            worker.base.resize((there.end - there.start) as usize, 0);
            // Unreadable parts of the base are written.
            let read = if stays { read_full } else { read_once };
            let got = read(base.file, &mut worker.base, there.start).unwrap_or(0);
            worker.read.base += got as u64;
            for part in pieces(range, block) {
                let bytes = &all[content(all, &part)];
                let from = (part.start - range.start) as usize;
                let same = worker.base[..got].get(from..from + bytes.len()) == Some(bytes);
                if !same || (is_zero(bytes) && is_hole(base.file, &part, &mut hole)) {
                    ranges::push(&mut differing, part);
                }
            }
        }
        debug_assert!(differing.iter().all(|range| range.end <= size), "nothing lies behind the end");
        differing
    }
}

/// Cuts a range at multiples of `unit`.
fn pieces(range: &Bytes, unit: u64) -> impl Iterator<Item = Bytes> + use<> {
    let end = range.end;
    let mut at = range.start;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let start = at;
            at = (at / unit * unit + unit).min(end);
            start..at
        })
    })
}

/// Whether these bytes are zeros, and not empty.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0) && bytes.iter().all(|byte| *byte == 0)
}

/// Whether a block was never written: written zeros must stay data. `known` is the last result and its range. lseek(2)
/// is not used, because it consults the page cache and reports reserved space as data after it was read.
fn is_hole(file: BorrowedFd<'_>, block: &Bytes, known: &mut (Bytes, bool)) -> bool {
    if !(known.0.start <= block.start && block.end <= known.0.end) {
        let mut extents = fiemap::extents_from(file, block.start, false).filter_map(std::result::Result::ok);
        *known = match extents.find(|extent| !extent.flags.contains(ExtentFlags::UNWRITTEN)) {
            Some(extent) if extent.logical < block.end => (block.start..extent.logical_end().max(block.end), false),
            Some(extent) => (block.start..extent.logical, true),
            None => (block.start..u64::MAX, true),
        };
    }
    known.1
}

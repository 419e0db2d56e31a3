//! The hashes of several versions of a file, as the device returns them. A window that lies on the same blocks in
//! several versions is read and hashed once.
//!
//! The extents are streamed next to the data, so memory does not depend on their number. `disk` hashes a single file.

use super::disk::Content;
use super::tree::{self, Subtree, WINDOW, Whole};
use crate::extents::address_space::SpaceId;
use crate::extents::extent::{Extent, ExtentFlags};
use crate::fs::direct_io::{ALIGN, Aligned};
use crate::monitor::{Amount, Monitor};
use crate::sys::fiemap;
use crate::util::mutex::{self, lock};
use crate::util::parallel;
use rustix::io::{Errno, Result};
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, OnceLock};

/// A version of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version<'a> {
    /// Open for reading.
    pub(crate) file: BorrowedFd<'a>,
    /// The size in bytes.
    pub(crate) size: u64,
    /// The space of its addresses. `None`: it shares with no other version, as far as is known.
    pub(crate) space: Option<SpaceId>,
    /// The hash that the content should have. Compressed extents count as shared only by versions with the same one,
    /// because FIEMAP does not show where in them the data begins.
    pub(crate) claim: [u8; 32],
    /// The number of files with this version, for the progress.
    pub(crate) holders: u64,
}

/// The content of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Digest {
    /// Its hash.
    Hash([u8; 32]),
    /// The device does not return the data at this offset, or not all of it.
    Unreadable(u64, Errno),
}

/// Hashes these versions with this many threads. Returns the result of each, and the number of bytes read.
///
/// # Errors
/// `CANCELED` when the monitor asks to stop.
pub(crate) fn hash(versions: &[Version<'_>], threads: usize, monitor: &dyn Monitor) -> Result<(Vec<Digest>, u64)> {
    let files: Vec<_> = versions.iter().map(File::new).collect();
    let size = versions.iter().map(|version| version.size).max().unwrap_or(0);
    let windows = Mutex::new(Windows {
        next: 0,
        count: size.div_ceil(WINDOW),
        maps: versions.iter().map(ExtentMap::of).collect(),
    });
    let sums = Mutex::new(versions.iter().map(|_| Sum::default()).collect::<Vec<_>>());
    let work = |()| -> Result<u64> {
        let mut buffer = Aligned::take(usize::try_from(size.min(WINDOW)).unwrap_or(0).next_multiple_of(ALIGN));
        let mut read = 0;
        while let Some((number, parts)) = lock(&windows).next(versions, &sums) {
            for part in parts {
                if monitor.is_cancelled() {
                    return Err(Errno::CANCELED);
                }
                let version = &versions[part.holders[0]];
                let offset = number * WINDOW;
                let length = (version.size - offset).min(WINDOW);
                let value = files[part.holders[0]].read(&mut buffer, offset, length, &part.ranges);
                let value = value.map(|()| tree::window(&buffer.bytes()[..length as usize], offset, version.size));
                read += part.ranges.iter().map(|(start, end)| end - start).sum::<u64>();
                let mut sums = lock(&sums);
                let mut done = 0;
                for &holder in &part.holders {
                    sums[holder].add(number, value);
                    done += versions[holder].holders;
                }
                drop(sums);
                monitor.advance(Amount { files: 0, bytes: length.saturating_mul(done) });
            }
        }
        Ok(read)
    };
    let read: Result<Vec<u64>> = parallel::each(threads, vec![(); threads.max(1)], work).into_iter().collect();
    let read = read?.into_iter().sum();
    Ok((mutex::into_inner(sums).into_iter().map(Sum::finish).collect(), read))
}

/// The hash of a version, as far as it was read.
#[derive(Debug, Default)]
struct Sum {
    whole: Whole,
    failure: Option<(u64, Errno)>,
}

impl Sum {
    fn add(&mut self, number: u64, value: std::result::Result<Subtree, (u64, Errno)>) {
        match (value, self.failure) {
            (Ok(value), None) => self.whole.add(number, value),
            (Ok(_), Some(_)) => {}
            (Err(failure), before) => {
                self.failure =
                    Some(before.map_or(failure, |before| if before.0 < failure.0 { before } else { failure }));
            }
        }
    }

    fn finish(self) -> Digest {
        match self.failure {
            Some((offset, errno)) => Digest::Unreadable(offset, errno),
            None => Digest::Hash(self.whole.finish().unwrap_or_else(|| super::bytes(&[]))),
        }
    }
}

/// A version that is read from its device. It is prepared when a window of it is first needed.
struct File<'a> {
    file: BorrowedFd<'a>,
    size: u64,
    content: OnceLock<Result<Content<'a>>>,
}

impl<'a> File<'a> {
    fn new(version: &Version<'a>) -> Self {
        File { file: version.file, size: version.size, content: OnceLock::new() }
    }

    /// Reads these ranges of a window into a buffer that begins with it. The rest becomes zeros.
    ///
    /// # Errors
    /// The first offset that cannot be read.
    fn read(
        &self,
        buffer: &mut Aligned,
        offset: u64,
        length: u64,
        ranges: &[(u64, u64)],
    ) -> std::result::Result<(), (u64, Errno)> {
        let content = self.content.get_or_init(|| Content::among_others(self.file, self.size));
        let content = content.as_ref().map_err(|errno| (offset, *errno))?;
        let bytes = buffer.bytes_mut();
        let mut filled = 0;
        for &(start, end) in ranges {
            // Direct I/O begins and ends at a multiple of the alignment.
            let from = ((start - offset) as usize) / ALIGN * ALIGN;
            let to = ((end - offset) as usize).next_multiple_of(ALIGN).min(bytes.len());
            if from > filled {
                bytes[filled..from].fill(0);
            }
            let from = from.max(filled);
            if to > from {
                let at = offset + from as u64;
                let got = content
                    .read(&mut bytes[from..to], at)
                    .map_err(|errno| first_failure(content, at, to - from, errno))?;
                bytes[from + got..to].fill(0);
                filled = to;
            }
        }
        bytes[filled.min(length as usize)..length as usize].fill(0);
        Ok(())
    }
}

/// The first block of a range that cannot be read.
fn first_failure(content: &Content<'_>, at: u64, length: usize, errno: Errno) -> (u64, Errno) {
    let mut block = Aligned::take(ALIGN);
    let mut offsets = (at..at + length as u64).step_by(ALIGN);
    let failed = offsets.find_map(|at| content.read(block.bytes_mut(), at).err().map(|errno| (at, errno)));
    // The second time all of it could be read: what it was is still worth a report.
    failed.unwrap_or((at, errno))
}

/// A window of some versions that is the same for them.
struct Part {
    /// The versions, by number.
    holders: Vec<usize>,
    /// The ranges that have data, as start and end.
    ranges: Vec<(u64, u64)>,
}

/// The windows that are still to be read.
struct Windows<'a> {
    next: u64,
    count: u64,
    maps: Vec<ExtentMap<'a>>,
}

impl Windows<'_> {
    fn next(&mut self, versions: &[Version<'_>], sums: &Mutex<Vec<Sum>>) -> Option<(u64, Vec<Part>)> {
        if self.next >= self.count {
            return None;
        }
        let number = self.next;
        self.next += 1;
        let offset = number * WINDOW;
        let failed: Vec<bool> = lock(sums).iter().map(|sum| sum.failure.is_some()).collect();
        let mut parts: Vec<(Option<Key>, Part)> = Vec::new();
        let present = versions.iter().enumerate().filter(|(at, version)| version.size > offset && !failed[*at]);
        for (at, version) in present {
            let (key, ranges) = self.maps[at].window(version, offset, (version.size - offset).min(WINDOW));
            match parts.iter_mut().find(|(known, _)| known.is_some() && *known == key) {
                Some((_, part)) => part.holders.push(at),
                None => parts.push((key, Part { holders: vec![at], ranges })),
            }
        }
        Some((number, parts.into_iter().map(|(_, part)| part).collect()))
    }
}

/// What decides the content of a window: equal keys, equal bytes.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    space: SpaceId,
    length: u64,
    /// A file of one window is hashed differently.
    is_whole: bool,
    /// Offset in the file, length, offset on the device.
    pieces: Vec<(u64, u64, u64)>,
    /// With compressed extents: the hash that the file should have.
    claim: Option<[u8; 32]>,
}

type Extents<'a> = Box<dyn Iterator<Item = Result<Extent>> + Send + 'a>;

/// The extents of a version, read from front to back.
struct ExtentMap<'a> {
    /// `None`: unknown, so all of the file may be data.
    extents: Option<Extents<'a>>,
    ahead: Option<Extent>,
}

impl<'a> ExtentMap<'a> {
    fn of(version: &Version<'a>) -> Self {
        // Most files have few extents, and the memory for many costs more than the call.
        let extents: Option<Extents<'a>> = match fiemap::few_extents(version.file, true) {
            Ok(Some(few)) => Some(Box::new(few.into_iter().map(Ok))),
            Ok(None) => Some(Box::new(fiemap::extents(version.file, false))),
            Err(_) => None,
        };
        let mut map = ExtentMap { extents, ahead: None };
        map.advance();
        map
    }

    fn advance(&mut self) {
        self.ahead = match self.extents.as_mut().and_then(Iterator::next) {
            Some(Ok(extent)) => Some(extent),
            Some(Err(_)) => {
                self.extents = None;
                None
            }
            None => None,
        };
    }

    /// The key of a window, unless its content cannot be known from its place, and the ranges with data.
    fn window(&mut self, version: &Version<'_>, offset: u64, length: u64) -> (Option<Key>, Vec<(u64, u64)>) {
        let end = offset + length;
        let (mut pieces, mut ranges) = (Vec::new(), Vec::<(u64, u64)>::new());
        let (mut is_known, mut is_encoded) = (true, false);
        while let Some(extent) = self.ahead.filter(|extent| extent.logical < end) {
            let (from, to) = (extent.logical.max(offset), extent.logical_end().min(end));
            // Ranges that were never written read as zeros.
            if from < to && !extent.flags.contains(ExtentFlags::UNWRITTEN) {
                match ranges.last_mut().filter(|last| last.1 == from) {
                    Some(last) => last.1 = to,
                    None => ranges.push((from, to)),
                }
                let strange = ExtentFlags::DATA_ENCRYPTED | ExtentFlags::NOT_ALIGNED;
                match extent.physical.filter(|_| !extent.flags.intersects(strange)) {
                    Some(physical) if extent.flags.contains(ExtentFlags::ENCODED) => {
                        is_encoded = true;
                        pieces.push((extent.logical, extent.length, physical));
                    }
                    Some(physical) => {
                        add_piece(&mut pieces, (from, to - from, physical.saturating_add(from - extent.logical)))
                    }
                    None => is_known = false,
                }
            }
            if extent.logical_end() > end {
                break;
            }
            self.advance();
        }
        if self.extents.is_none() {
            return (None, vec![(offset, end)]);
        }
        let claim = is_encoded.then_some(version.claim);
        let is_whole = version.size <= WINDOW;
        let key = version.space.filter(|_| is_known).map(|space| Key { space, length, is_whole, pieces, claim });
        (key, ranges)
    }
}

/// Adds a piece. The kernel may report adjacent data in different parts.
fn add_piece(pieces: &mut Vec<(u64, u64, u64)>, piece: (u64, u64, u64)) {
    match pieces.last_mut().filter(|last| (last.0 + last.1, last.2 + last.1) == (piece.0, piece.2)) {
        Some(last) => last.1 += piece.1,
        None => pieces.push(piece),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::FileExt as _;

    #[test]
    fn each_version_gets_the_hash_of_its_content_whatever_its_size_and_holes() {
        let sizes = [0_u64, 1, 4095, 4097, 300_000, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW + 5000];
        let files: Vec<_> = sizes
            .iter()
            .map(|&size| {
                let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
                let content: Vec<u8> = (0..size).map(|number| (number / 7) as u8).collect();
                file.write_all_at(&content, 0).unwrap();
                (file, content)
            })
            .collect();
        let sparse = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut content = vec![0; 5 << 20];
        content[1_000_001..1_006_000].fill(1);
        content[4_000_000..4_000_003].fill(2);
        sparse.write_all_at(&content[1_000_001..1_006_000], 1_000_001).unwrap();
        sparse.write_all_at(&[2; 3], 4_000_000).unwrap();
        sparse.set_len(5 << 20).unwrap();
        let all: Vec<_> = files.into_iter().chain([(sparse, content)]).collect();
        let versions: Vec<_> = all
            .iter()
            .map(|(file, content)| Version {
                file: file.as_fd(),
                size: content.len() as u64,
                space: None,
                claim: [0; 32],
                holders: 1,
            })
            .collect();
        for threads in [1, 3] {
            let (found, read) = hash(&versions, threads, &Silent).unwrap();
            for ((_, content), found) in all.iter().zip(found) {
                assert_eq!(found, Digest::Hash(super::super::bytes(content)), "{}", content.len());
            }
            assert!(read <= all.iter().map(|(_, content)| content.len() as u64).sum());
        }
    }

    #[test]
    fn versions_on_the_same_blocks_are_read_once() {
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let size = 3 * WINDOW + 5000;
        file.write_all_at(&vec![7; size as usize], 0).unwrap();
        file.sync_all().unwrap();
        if fiemap::extents(&file, true).any(|extent| extent.is_err_and(|errno| errno == Errno::OPNOTSUPP)) {
            return;
        }
        let space = Some(SpaceId::assumed());
        let version = Version { file: file.as_fd(), size, space, claim: [0; 32], holders: 1 };
        let cut = Version { size: 2 * WINDOW + 9, ..version };
        let (found, read) = hash(&[version, version, cut], 2, &Silent).unwrap();
        assert_eq!(found[0], Digest::Hash(super::super::bytes(&vec![7; size as usize])));
        assert_eq!(found[2], Digest::Hash(super::super::bytes(&vec![7; cut.size as usize])));
        assert_eq!((found[0], read), (found[1], size + 9), "only the last window of the shorter one is its own");
    }
}

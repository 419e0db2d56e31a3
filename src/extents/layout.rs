//! Where a range of a file lies, as exactly as it can be known. On XFS FIEMAP tells all. On Btrfs an extent is freed as a
//! whole, so its bounds matter: root reads them in the file's own items; anyone else sees only the parts that files use.

use crate::extents::address_space::CommonSpace;
use crate::extents::extent::{Extent, ExtentFlags};
use crate::fs::status::Status;
use crate::sys::btrfs::logical::subvolume_of;
use crate::sys::btrfs::tree::{self, EXTENT_DATA, Key, Step};
use crate::sys::btrfs::{ExtentPart, FileExtent};
use crate::sys::fiemap::{self, Extents};
use rustix::io::{Errno, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// A range of a file in one place. Holes, reserved space and data without an address have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The offset in the file.
    pub(crate) logical: u64,
    /// The length in the file.
    pub(crate) length: u64,
    /// The address of the extent: of all of it where that is known, of this part elsewhere.
    pub(crate) extent: u64,
    /// The offset in the extent (in its decoded bytes).
    pub(crate) offset: u64,
    /// Bytes that the extent takes on the disk.
    pub(crate) disk: u64,
    /// Compressed.
    pub(crate) encoded: bool,
    /// Whether something else holds it too.
    pub(crate) shared: bool,
}

impl Piece {
    /// The offset in the file just behind it.
    pub(crate) fn end(&self) -> u64 {
        self.logical.saturating_add(self.length)
    }

    /// Its part within a range of the file.
    pub(crate) fn within(&self, from: u64, to: u64) -> Option<Piece> {
        let (start, end) = (self.logical.max(from), self.end().min(to));
        (start < end).then(|| Piece {
            logical: start,
            length: end - start,
            offset: self.offset + (start - self.logical),
            ..*self
        })
    }

    /// A number for its first byte, the same for all that hold that byte, and followed by those of the next bytes.
    pub(crate) fn address(&self) -> u64 {
        if self.encoded {
            // Behind all plain addresses. A compressed extent takes at least a block, and decodes to at most 128 KiB.
            (1 << 63 | self.extent.wrapping_mul(32)).wrapping_add(self.offset)
        } else {
            self.extent.wrapping_add(self.offset)
        }
    }
}

/// How a file's layout is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By FIEMAP.
    Fiemap,
    /// By the items of this inode in this tree.
    Items {
        /// The subvolume.
        root: u64,
        /// The inode.
        inode: u64,
    },
}

impl Way {
    /// The way that tells most: root on Btrfs sees the extents themselves, where `by_extent` asks for them.
    pub(crate) fn finest(file: BorrowedFd<'_>, by_extent: bool) -> Way {
        let is_root = || rustix::process::geteuid().is_root();
        match (by_extent && is_root()).then(|| (subvolume_of(file), rustix::fs::fstat(file))) {
            Some((Ok(root), Ok(stat))) => Way::Items { root, inode: stat.st_ino },
            _ => Way::Fiemap,
        }
    }
}

/// All pieces of a range of a file; without its items where those may not be read after all, and no longer asking for them.
pub(crate) fn all_pieces(file: BorrowedFd<'_>, way: &mut Way, range: &Range<u64>) -> Result<Vec<Piece>> {
    match pieces(file, *way, range.start, range.end, usize::MAX, false) {
        Err(Errno::PERM) if *way != Way::Fiemap => {
            *way = Way::Fiemap;
            pieces(file, *way, range.start, range.end, usize::MAX, false)
        }
        result => result,
    }
}

/// At most `most` pieces of a range of a file, in order, cut to the range. `sync` has its dirty pages written first.
pub(crate) fn pieces(fd: BorrowedFd<'_>, way: Way, from: u64, to: u64, most: usize, sync: bool) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    for extent in fiemap::extents_from(fd, from, sync) {
        let extent = extent?;
        if extent.logical >= to || pieces.len() >= most {
            break;
        }
        pieces.extend(from_fiemap(&extent).and_then(|piece| piece.within(from, to)));
    }
    let Way::Items { root, inode } = way else { return Ok(pieces) };
    // FIEMAP alone knows what is shared. It joins what the items tell apart, never the other way round.
    let end = if pieces.len() >= most { pieces.last().map_or(to, Piece::end) } else { to };
    let mut exact = items(fd, root, inode, from, end)?;
    let mut told = pieces.iter().peekable();
    for piece in &mut exact {
        while told.next_if(|told| told.end() <= piece.logical).is_some() {}
        piece.shared = told.clone().take_while(|told| told.logical < piece.end()).any(|told| told.shared);
    }
    Ok(exact)
}

/// Hands the shared pieces of a file to `each`, some at a time; their bounds may be those of parts of extents. Dirty pages
/// are written first.
///
/// FIEMAP tells the address of every byte that is not compressed, so only for the others the items are asked.
pub(crate) fn shared(fd: BorrowedFd<'_>, way: Way, size: u64, mut each: impl FnMut(&[Piece])) -> Result<()> {
    let mut hand = |extents: &[Extent]| {
        let mut found = Vec::new();
        for piece in extents.iter().filter_map(from_fiemap).filter_map(|piece| piece.within(0, size)) {
            match way {
                _ if !piece.shared => {}
                Way::Items { root, inode } if piece.encoded => {
                    let exact = items(fd, root, inode, piece.logical, piece.end())?;
                    found.extend(exact.into_iter().map(|piece| Piece { shared: true, ..piece }));
                }
                _ => found.push(piece),
            }
        }
        if !found.is_empty() {
            each(&found);
        }
        Ok(())
    };
    // Most files have few, and the memory for many costs more than the call.
    if let Some(few) = fiemap::few_extents(fd, true)? {
        return hand(&few);
    }
    fiemap::extents(fd, false).try_for_each(|extent| hand(&[extent?]))
}

/// A data extent of a Btrfs file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WholeExtent {
    /// Its length on the disk.
    pub(crate) disk: u64,
    /// How many parts of the file refer to it.
    pub(crate) references: u64,
}

/// The data extents of a Btrfs file, by their addresses.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`.
pub(crate) fn whole_extents(fd: BorrowedFd<'_>) -> Result<BTreeMap<u64, WholeExtent>> {
    let (root, inode) = (subvolume_of(fd)?, rustix::fs::fstat(fd)?.st_ino);
    let mut extents = BTreeMap::new();
    let (first, last) = (Key::new(inode, EXTENT_DATA, 0), Key::new(inode, EXTENT_DATA, u64::MAX));
    tree::search(fd, root, first, last, |item| {
        if let Some(part) = FileExtent::read(&item).and_then(FileExtent::data) {
            let extent = extents.entry(part.extent).or_insert(WholeExtent { disk: part.disk, references: 0 });
            extent.references += 1;
        }
        Step::Next
    })?;
    Ok(extents)
}

fn from_fiemap(extent: &Extent) -> Option<Piece> {
    if extent.flags.intersects(ExtentFlags::UNWRITTEN | ExtentFlags::DATA_ENCRYPTED | ExtentFlags::NOT_ALIGNED) {
        return None;
    }
    Some(Piece {
        logical: extent.logical,
        length: extent.length,
        extent: extent.physical?,
        offset: 0,
        disk: extent.length,
        encoded: extent.flags.contains(ExtentFlags::ENCODED),
        shared: extent.is_shared(),
    })
}

/// The pieces as the file's own items have them.
fn items(fd: BorrowedFd<'_>, root: u64, inode: u64, from: u64, to: u64) -> Result<Vec<Piece>> {
    // The item that covers the first byte begins before it, no one knows how far.
    let mut back = 128 << 10;
    let first = loop {
        let start = from.saturating_sub(back);
        let mut first = None;
        tree::search(fd, root, Key::new(inode, EXTENT_DATA, start), Key::new(inode, EXTENT_DATA, from), |item| {
            first = Some(item.key.offset);
            Step::Next
        })?;
        match first {
            Some(first) => break first,
            None if start == 0 => break from,
            None => back = back.saturating_mul(16),
        }
    };
    let mut pieces = Vec::new();
    let last = Key::new(inode, EXTENT_DATA, to.saturating_sub(1));
    tree::search(fd, root, Key::new(inode, EXTENT_DATA, first), last, |item| {
        if (item.key.objectid, item.key.kind) == (inode, EXTENT_DATA) {
            pieces.extend(from_item(&item).and_then(|piece| piece.within(from, to)));
        }
        Step::Next
    })?;
    Ok(pieces)
}

fn from_item(item: &tree::Item<'_>) -> Option<Piece> {
    let part = FileExtent::read(item)?.data()?;
    let ExtentPart { logical, length, extent, offset, disk, compressed, .. } = part;
    let readable = part.written && !part.foreign;
    readable.then_some(Piece { logical, length, extent, offset, disk, encoded: compressed, shared: false })
}

/// Whether two files are known to have the same content because all their data is in the same place. `false` proves nothing:
/// inline, compressed, encrypted or unmapped data, files of different address spaces, and files that change meanwhile.
/// Dirty pages are written first.
pub(crate) fn has_same_extents(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> Result<bool> {
    let Some(space) = CommonSpace::of(a, b)? else { return Ok(false) };
    let before = (Status::of(a)?, Status::of(b)?);
    if before.0.size != before.1.size {
        return Ok(false);
    }
    // The first call flushes. A later store then changes the times, even through a mapping.
    let (mut one, mut other) = (Runs::of(a), Runs::of(b));
    let (mut x, mut y) = (one.next()?, other.next()?);
    while let (Some(run), Some(twin)) = (&x, &y) {
        if !run.is_same_place(twin, space) {
            return Ok(false);
        }
        (x, y) = (one.next()?, other.next()?);
    }
    let is_quiet = || Ok(Status::of(a)?.is_untouched_since(&before.0) && Status::of(b)?.is_untouched_since(&before.1));
    if x.is_none() && y.is_none() { is_quiet() } else { Ok(false) }
}

/// The written extents of a file, joined where they continue each other in the file and on the device: the kernel may report
/// the same data in different parts.
struct Runs<'a> {
    extents: Extents<BorrowedFd<'a>>,
    ahead: Option<Run>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    logical: u64,
    length: u64,
    /// `None`: the address is unknown or does not identify the data.
    physical: Option<u64>,
}

impl Run {
    fn is_same_place(&self, other: &Run, _: CommonSpace) -> bool {
        self.physical.is_some()
            && (self.logical, self.length, self.physical) == (other.logical, other.length, other.physical)
    }

    fn is_continued_by(&self, next: &Run) -> bool {
        let end = self.physical.and_then(|start| start.checked_add(self.length));
        end.is_some() && end == next.physical && self.logical.checked_add(self.length) == Some(next.logical)
    }
}

impl<'a> Runs<'a> {
    fn of(file: BorrowedFd<'a>) -> Runs<'a> {
        Runs { extents: fiemap::extents(file, true), ahead: None }
    }

    fn next(&mut self) -> Result<Option<Run>> {
        let mut present = self.ahead.take();
        for extent in self.extents.by_ref() {
            let extent = extent?;
            if extent.flags.contains(ExtentFlags::UNWRITTEN) {
                continue;
            }
            let strange = ExtentFlags::ENCODED | ExtentFlags::DATA_ENCRYPTED | ExtentFlags::NOT_ALIGNED;
            let physical = extent.physical.filter(|_| !extent.flags.intersects(strange));
            let next = Run { logical: extent.logical, length: extent.length, physical };
            match &mut present {
                None => present = Some(next),
                Some(last) if last.is_continued_by(&next) => last.length += next.length,
                Some(_) => {
                    self.ahead = Some(next);
                    break;
                }
            }
        }
        Ok(present)
    }
}

/// Makes pieces that lie side by side on the disk parts of one extent: the most that can be told of extents without root.
pub(crate) fn join_neighbours(pieces: &mut [Piece]) {
    let mut order: Vec<_> = (0..pieces.len()).filter(|&n| !pieces[n].encoded).collect();
    order.sort_unstable_by_key(|&n| pieces[n].extent);
    let mut begin = 0;
    while let Some(&first) = order.get(begin) {
        let start = pieces[first].extent;
        let (mut end, mut behind) = (start, begin);
        while let Some(next) = order.get(behind).map(|&n| pieces[n]).filter(|next| next.extent <= end) {
            end = end.max(next.extent + next.length);
            behind += 1;
        }
        for &n in &order[begin..behind] {
            let piece = &mut pieces[n];
            (piece.offset, piece.extent, piece.disk) = (piece.extent - start, start, end - start);
        }
        begin = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(logical: u64, length: u64, extent: u64) -> Piece {
        Piece { logical, length, extent, offset: 0, disk: length, encoded: false, shared: false }
    }

    #[test]
    fn neighbours_on_the_disk_become_one_extent() {
        let mut pieces = [piece(0, 10, 100), piece(10, 10, 300), piece(20, 10, 110), piece(30, 5, 100)];
        join_neighbours(&mut pieces);
        let told: Vec<_> = pieces.iter().map(|piece| (piece.extent, piece.offset, piece.disk)).collect();
        assert_eq!(told, [(100, 0, 20), (300, 0, 10), (100, 10, 20), (100, 0, 20)]);
    }

    #[test]
    fn a_part_of_a_piece_keeps_its_address() {
        let part = Piece { offset: 3, ..piece(50, 20, 100) }.within(55, 60).unwrap();
        assert_eq!((part.logical, part.length, part.offset, part.address()), (55, 5, 8, 108));
        assert_eq!(piece(50, 20, 100).within(70, 90), None);
    }
}

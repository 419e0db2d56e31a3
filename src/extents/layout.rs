//! Reads the layout of a file as exactly as possible. On XFS FIEMAP shows everything. On Btrfs an extent is freed as a
//! whole, so its bounds matter: root reads them in the file's own items, and other users see only the parts that files
//! use.

use super::address_space::{Address, AddressSpace, SpaceId};
use super::extent::{Extent, ExtentFlags};
use super::piece::Piece;
use crate::fs::status::Status;
use crate::sys::btrfs::logical::subvolume_of;
use crate::sys::btrfs::tree::{self, EXTENT_DATA, Key, Step};
use crate::sys::btrfs::{ExtentPart, FileExtent};
use crate::sys::fiemap::{self, Extents};
use rustix::io::{Errno, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// How the layout of a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// The address space of the file. Without one its pieces have no addresses.
    pub(crate) space: Option<SpaceId>,
    /// The Btrfs inode with the items to read; `None`: FIEMAP is enough, or the only way.
    pub(crate) items: Option<Inode>,
}

/// An inode of a Btrfs subvolume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    /// The subvolume.
    pub(crate) root: u64,
    /// The number of the inode.
    pub(crate) number: u64,
}

impl Way {
    /// The most exact way: root on Btrfs reads the items, if `by_extent` asks for whole extents.
    pub(crate) fn finest(file: BorrowedFd<'_>, space: Option<SpaceId>, by_extent: bool) -> Way {
        let is_root = || rustix::process::geteuid().is_root();
        let items = match (by_extent && is_root()).then(|| (subvolume_of(file), rustix::fs::fstat(file))) {
            Some((Ok(root), Ok(stat))) => Some(Inode { root, number: stat.st_ino }),
            _ => None,
        };
        Way { space, items }
    }

    /// Whether the bounds of whole extents are known.
    pub(crate) fn is_exact(&self) -> bool {
        self.items.is_some()
    }
}

/// All pieces of a range of a file. Items do not show sharing, and finding it out would take longer than all the rest.
/// If they cannot be read after all, `way` changes to FIEMAP.
pub(crate) fn all_pieces(file: BorrowedFd<'_>, way: &mut Way, range: &Range<u64>) -> Result<Vec<Piece>> {
    if let Some(inode) = way.items {
        match items(file, inode, way.space, range.start, range.end) {
            Err(Errno::PERM) => way.items = None,
            result => return result,
        }
    }
    pieces(file, *way, range.start, range.end, usize::MAX, false)
}

/// Writes the dirty pages of a file, and waits until its items show everything that was written. After fdatasync(2)
/// they may still be on their way; FIEMAP waits for them, whatever range it is asked for.
pub(crate) fn settle(file: BorrowedFd<'_>) -> Result<()> {
    let last = Status::of(file)?.size.saturating_sub(1);
    fiemap::extents_from(file, last, true).next().transpose().map(drop)
}

/// At most `most` pieces of a range of a file, in order, cut to the range. `sync` writes its dirty pages first.
pub(crate) fn pieces(fd: BorrowedFd<'_>, way: Way, from: u64, to: u64, most: usize, sync: bool) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    for extent in fiemap::extents_from(fd, from, sync) {
        let extent = extent?;
        if extent.logical >= to || pieces.len() >= most {
            break;
        }
        pieces.extend(from_fiemap(&extent, way.space).and_then(|piece| piece.within(from, to)));
    }
    let Some(inode) = way.items else { return Ok(pieces) };
    // Only FIEMAP shows sharing. It may join pieces that are separate items, but never splits an item.
    let end = if pieces.len() >= most { pieces.last().map_or(to, Piece::end) } else { to };
    let mut exact = items(fd, inode, way.space, from, end)?;
    let mut reported = pieces.iter().peekable();
    for piece in &mut exact {
        while reported.next_if(|reported| reported.end() <= piece.logical).is_some() {}
        piece.shared =
            reported.clone().take_while(|reported| reported.logical < piece.end()).any(|reported| reported.shared);
    }
    Ok(exact)
}

/// Passes the shared pieces of a file to `each`, some at a time. Their bounds may be those of parts of extents. Writes
/// the file's dirty pages first.
///
/// FIEMAP reports the address of every byte that is not compressed, so the items are read only for compressed extents.
pub(crate) fn shared(fd: BorrowedFd<'_>, way: Way, size: u64, mut each: impl FnMut(&[Piece])) -> Result<()> {
    let mut hand = |extents: &[Extent]| {
        let mut found = Vec::new();
        let pieces = extents.iter().filter_map(|extent| from_fiemap(extent, way.space));
        for piece in pieces.filter_map(|piece| piece.within(0, size)) {
            match way.items {
                _ if !piece.shared => {}
                Some(inode) if piece.encoded => {
                    let exact = items(fd, inode, way.space, piece.logical, piece.end())?;
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
    // Most files have few extents, and allocating memory for many takes longer than the call.
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
    /// The number of parts of the file that refer to it.
    pub(crate) references: u64,
}

/// The data extents of a Btrfs file, by address.
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

fn from_fiemap(extent: &Extent, space: Option<SpaceId>) -> Option<Piece> {
    let unreadable = ExtentFlags::UNWRITTEN | ExtentFlags::DATA_ENCRYPTED | ExtentFlags::NOT_ALIGNED;
    let has_place = extent.physical.is_some() && !extent.flags.intersects(unreadable);
    has_place.then(|| Piece::of_extent(extent, space))
}

/// The pieces of a range of a file according to its items. They do not show sharing, and dirty pages are ignored.
///
/// # Errors
/// `PERM` without `CAP_SYS_ADMIN`.
pub(crate) fn items(
    fd: BorrowedFd<'_>,
    inode: Inode,
    space: Option<SpaceId>,
    from: u64,
    to: u64,
) -> Result<Vec<Piece>> {
    let Inode { root, number: inode } = inode;
    // The item that covers the first byte begins before it, at an unknown distance.
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
            pieces.extend(from_item(&item, space).and_then(|piece| piece.within(from, to)));
        }
        Step::Next
    })?;
    Ok(pieces)
}

fn from_item(item: &tree::Item<'_>, space: Option<SpaceId>) -> Option<Piece> {
    let part = FileExtent::read(item)?.data()?;
    let ExtentPart { logical, length, extent, offset, disk, compressed, .. } = part;
    let is_readable = part.written && !part.foreign;
    is_readable.then(|| Piece {
        logical,
        length,
        extent: space.map(|space| space.at(extent)),
        offset,
        disk,
        shared: false,
        encoded: compressed,
        unwritten: false,
        estimated: false,
    })
}

/// Whether two files are known to have the same content because all their data is in the same place. `false` proves
/// nothing: inline, compressed, encrypted or unmapped data, files of different address spaces, and files that change
/// meanwhile. Dirty pages are written first.
pub(crate) fn has_same_extents(a: BorrowedFd<'_>, b: BorrowedFd<'_>) -> Result<bool> {
    let Some(space) = AddressSpace::common(a, b)? else { return Ok(false) };
    let before = (Status::of(a)?, Status::of(b)?);
    if before.0.size != before.1.size {
        return Ok(false);
    }
    // The first call flushes dirty pages. A later write then changes the timestamps, even through a mapping.
    let (mut one, mut other) = (Runs::of(a, space), Runs::of(b, space));
    let (mut x, mut y) = (one.next()?, other.next()?);
    while let (Some(run), Some(twin)) = (&x, &y) {
        if !run.is_same_place(twin) {
            return Ok(false);
        }
        (x, y) = (one.next()?, other.next()?);
    }
    let is_quiet = || Ok(Status::of(a)?.is_untouched_since(&before.0) && Status::of(b)?.is_untouched_since(&before.1));
    if x.is_none() && y.is_none() { is_quiet() } else { Ok(false) }
}

/// The written extents of a file, joined if they are adjacent in the file and on the device: the kernel may report the
/// same data in different parts.
struct Runs<'a> {
    extents: Extents<BorrowedFd<'a>>,
    space: SpaceId,
    ahead: Option<Run>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    logical: u64,
    length: u64,
    /// `None`: the address is unknown or does not identify the data.
    address: Option<Address>,
}

impl Run {
    fn is_same_place(&self, other: &Run) -> bool {
        let is_same = |(one, two): (Address, Address)| one.is_same_place(two);
        (self.logical, self.length) == (other.logical, other.length)
            && self.address.zip(other.address).is_some_and(is_same)
    }

    fn is_continued_by(&self, next: &Run) -> bool {
        let follows = |(start, next): (Address, Address)| start.plus(self.length).is_same_place(next);
        self.logical.checked_add(self.length) == Some(next.logical)
            && self.address.zip(next.address).is_some_and(follows)
    }
}

impl<'a> Runs<'a> {
    fn of(file: BorrowedFd<'a>, space: SpaceId) -> Runs<'a> {
        Runs { extents: fiemap::extents(file, true), space, ahead: None }
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
            let address = physical.map(|physical| self.space.at(physical));
            let next = Run { logical: extent.logical, length: extent.length, address };
            match &mut present {
                None => present = Some(next),
                Some(run) if run.is_continued_by(&next) => run.length += next.length,
                Some(_) => {
                    self.ahead = Some(next);
                    break;
                }
            }
        }
        Ok(present)
    }
}

/// Joins pieces of one file that are adjacent on the disk into parts of one extent: without root, nothing more is known
/// about extents. Pieces without an address are unchanged.
pub(crate) fn join_neighbours(pieces: &mut [Piece]) {
    let extent = |piece: &Piece| piece.extent.map_or(0, Address::of_one_file);
    let mut order: Vec<_> = (0..pieces.len()).filter(|&n| !pieces[n].encoded && pieces[n].extent.is_some()).collect();
    order.sort_unstable_by_key(|&n| extent(&pieces[n]));
    let mut begin = 0;
    while let Some(&first) = order.get(begin) {
        let (address, start) = (pieces[first].extent, extent(&pieces[first]));
        let (mut end, mut behind) = (start, begin);
        while let Some(next) = order.get(behind).map(|&n| pieces[n]).filter(|next| extent(next) <= end) {
            end = end.max(extent(&next) + next.length);
            behind += 1;
        }
        for &n in &order[begin..behind] {
            let piece = &mut pieces[n];
            (piece.offset, piece.extent, piece.disk) = (extent(piece) - start, address, end - start);
        }
        begin = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_on_the_disk_become_one_extent() {
        let space = SpaceId::assumed();
        let piece = |logical, length, extent| Piece::plain(logical, length, space.at(extent));
        let mut pieces = [piece(0, 10, 100), piece(10, 10, 300), piece(20, 10, 110), piece(30, 5, 100)];
        join_neighbours(&mut pieces);
        let found: Vec<_> =
            pieces.iter().map(|piece| (piece.extent_in(space).unwrap(), piece.offset, piece.disk)).collect();
        assert_eq!(found, [(100, 0, 20), (300, 0, 10), (100, 10, 20), (100, 0, 20)]);
    }
}

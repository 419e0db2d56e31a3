//! Maps of trees on XFS, for root. XFS lists all inodes of a filesystem quickly (`BULKSTAT`), and files can be opened
//! by their numbers. So making maps opens no directory twice and no file by its path.
//!
//! Nothing shows that FIDEDUPERANGE gave a file other extents. So figures rest on these checks, all in one pass:
//!
//! - The inodes of each tree are those of its map, with the same sizes, times, blocks and numbers of extents.
//! - A range counts only if the extent map of a file that holds it still shows it. If the maps know one reference, the
//!   kernel must also report that nothing shares it.
//! - A range with several references is compared with the extent maps of all files that are not in any tree.
//!
//! What remains: another program shares ranges among trees, without any other trace, after they were mapped. A range
//! that only one tree holds since then is missed, so figures are lower bounds. A range with several references in one
//! tree may have another one in another tree: then a figure is marked as approximate, unless all trees are in the set.

use super::file::Reader;
use super::merge::{self, Piece};
use super::names;
use super::pass::{Owners, Pass, is_mappable, note};
use super::task::{Figures, Made, Subjects};
use super::types::{Identity, References, Tree, ctime};
use crate::error::{Error, Result};
use crate::extents::address_space::AddressSpace;
use crate::extents::bound::Bound;
use crate::extents::intervals::Merged;
use crate::extents::ranges::{self, Bytes};
use crate::fs::filesystem::Filesystem;
use crate::fs::status::Status;
use crate::monitor::{Amount, Monitor};
use crate::sys::xfs;
use crate::usage::inodes::Inodes;
use crate::usage::xfs::chunks::{self, MadeBefore};
use crate::usage::xfs::deleted;
use crate::usage::xfs::free_space::FreeSpace;
use crate::usage::{Freed, Link};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

/// How many files are in the trees that are mapped together.
const TOGETHER: u64 = 1 << 20;

/// A tree while its map is made.
struct Draft {
    number: usize,
    root: u64,
    changed: (i64, u32),
    inodes: Inodes,
    digest: blake3::Hasher,
    own: u64,
    ranges: Merged<References>,
    found: u64,
    /// No map can be made of it.
    is_unfit: bool,
}

/// Makes the maps of trees if all names of their files are in them. Returns the number of files that were mapped.
pub(super) fn make(
    trees: &[Tree<'_>],
    threads: usize,
    monitor: &dyn Monitor,
    each: &mut dyn FnMut(usize, Made),
) -> Result<u64> {
    let Some(Tree { fd, path, .. }) = trees.first() else { return Ok(0) };
    let failed = |errno: Errno| Error::io("query the filesystem of", path, errno);
    let space = AddressSpace::from(Filesystem::identify(fd).map_err(failed)?).id();
    // Before any tree is walked: this needs root.
    let block = u64::from(xfs::geometry(fd).map_err(failed)?.block_size);
    xfs::inode(fd, 0).map_err(failed)?;
    let (mut mapped, mut begun) = (0, 0);
    while begun < trees.len() {
        let (mut group, mut files) = (Vec::new(), 0);
        monitor.phase("listing snapshots", None);
        while let Some(tree) = trees.get(begun).filter(|tree| group.is_empty() || files + tree.files <= TOGETHER) {
            let status = Status::of(tree.fd).map_err(failed)?;
            if let Some(inodes) = names::inodes(&tree.path, status.dev, threads, monitor)? {
                group.push(Draft {
                    number: begun,
                    root: status.ino,
                    changed: ctime(&status),
                    inodes,
                    digest: blake3::Hasher::new(),
                    own: 0,
                    ranges: Merged::new(space),
                    found: 0,
                    is_unfit: false,
                });
            }
            (files, begun) = (files + tree.files, begun + 1);
        }
        monitor.phase("mapping snapshots", Some(Amount { files, bytes: 0 }));
        let mut owners = Owners::new(group.iter().map(|draft| draft.inodes.runs()));
        for shared in &owners.common {
            group[*shared].is_unfit = true;
        }
        let drafts = RefCell::new(&mut group);
        let pass = Pass { fd: *fd, path, threads, monitor };
        mapped += pass.run(
            |inode| {
                let owner = owners.of(inode.number)?;
                let draft = &mut drafts.borrow_mut()[owner];
                draft.found += 1;
                note(&mut draft.digest, inode);
                let is_directory = FileType::from_raw_mode(inode.mode) == FileType::Directory;
                let has_names_elsewhere = !is_directory && draft.inodes.names(inode.number) != u64::from(inode.names);
                draft.is_unfit |= has_names_elsewhere || inode.realtime;
                draft.own += inode.blocks.saturating_mul(block);
                (is_mappable(inode) && !draft.is_unfit).then_some(owner)
            },
            |owner, inode, extents| {
                let draft = &mut drafts.borrow_mut()[owner];
                for (range, _) in extents {
                    let length = range.end - range.start;
                    draft.own = draft.own.saturating_sub(length);
                    draft.ranges.add_range(space.at(range.start), length, References { count: 1, inode: inode.number });
                }
            },
        )?;
        for draft in group {
            let Draft { number, root, changed, inodes, digest, own, ranges, found, is_unfit } = draft;
            if is_unfit || found != inodes.count() {
                continue;
            }
            let digest = *digest.finalize().as_bytes();
            each(number, Made { identity: Identity::Xfs { root, changed, digest, own }, inodes, ranges });
        }
    }
    Ok(mapped)
}

/// Why a file is mapped again.
#[derive(Clone, Copy)]
enum Why {
    /// It holds a range that may count.
    Holder,
    /// It is in no tree.
    Outside,
    /// It is deleted with this tree.
    Beside(usize),
}

/// For each tree: bytes that are freed with it and need no further question, and inodes beside it that go with it.
struct Going {
    bytes: Vec<u64>,
    inodes: HashMap<u64, usize>,
}

/// The ranges that files hold now.
#[derive(Default)]
struct Now {
    /// Ranges of files that the maps name as holders, and those that nothing else shares.
    held: Vec<Bytes>,
    unshared: Vec<Bytes>,
    /// Ranges of files that are in no tree.
    outside: Vec<Bytes>,
}

/// The figures of the set.
pub(super) fn figures(subjects: Subjects<'_>, threads: usize, monitor: &dyn Monitor) -> Result<Figures> {
    let Subjects { fd, path, mut maps, set, roots, beside: beside_paths, link, each } = subjects;
    let failed = |errno: Errno| Error::io("query the filesystem of", path, errno);
    let block = u64::from(xfs::geometry(fd).map_err(failed)?.block_size);
    xfs::inode(fd, 0).map_err(failed)?;
    let mut inodes = Vec::with_capacity(maps.len());
    let mut pieces: Vec<Piece> = Vec::new();
    for (number, map) in maps.iter_mut().enumerate() {
        match runs(map) {
            Ok(found) => inodes.push(found),
            Err(_) => return Ok(Figures::Stale(vec![number])),
        }
    }
    let wanted = |piece: &Piece| piece.is_in_set || (each && set[piece.map as usize]);
    if let Err(unreadable) = merge::merge(&mut maps, &set, |piece| pieces.extend(Some(piece).filter(wanted))) {
        return Ok(Figures::Stale(vec![unreadable.map]));
    }
    let mut owners = Owners::new(inodes.iter().map(Inodes::runs));
    if !owners.common.is_empty() {
        return Ok(Figures::Stale(std::mem::take(&mut owners.common)));
    }
    let mut holders: Vec<u64> = pieces.iter().map(|piece| piece.inode).collect();
    holders.sort_unstable();
    holders.dedup();
    let beside = Beside::find(&beside_paths, &set);
    let own = |map: &Reader| match map.header().identity {
        Identity::Xfs { own, .. } => own,
        Identity::Btrfs { .. } => 0,
    };
    let going = RefCell::new(Going { bytes: maps.iter().map(own).collect(), inodes: HashMap::new() });
    let mut digests: Vec<_> = maps.iter().map(|_| blake3::Hasher::new()).collect();
    let mut now = Now::default();
    monitor.phase("asking who shares", None);
    let mapped = Pass { fd, path, threads, monitor }.run(
        |inode| {
            if let Some(owner) = owners.of(inode.number) {
                note(&mut digests[owner], inode);
                return holders.binary_search(&inode.number).is_ok().then_some(Why::Holder);
            }
            let Some(owner) = beside.of(inode) else { return is_mappable(inode).then_some(Why::Outside) };
            let mut going = going.borrow_mut();
            going.inodes.insert(inode.number, owner);
            going.bytes[owner] += inode.blocks.saturating_mul(block);
            is_mappable(inode).then_some(Why::Beside(owner))
        },
        |why, _, extents| match why {
            Why::Holder => {
                now.unshared.extend(extents.iter().filter(|(_, is_shared)| !is_shared).map(|(range, _)| range.clone()));
                now.held.extend(extents.into_iter().map(|(range, _)| range));
            }
            Why::Outside => {
                extents.into_iter().for_each(|(range, _)| now.outside.extend(overlaps(&pieces, &range)));
            }
            Why::Beside(owner) => {
                let shared = extents.iter().filter(|(_, is_shared)| *is_shared);
                let shared: u64 = shared.map(|(range, _)| range.end - range.start).sum();
                let own = &mut going.borrow_mut().bytes[owner];
                *own = own.saturating_sub(shared);
            }
        },
    )?;
    let is_changed = |map: &Reader, digest: &blake3::Hasher| match &map.header().identity {
        Identity::Xfs { digest: before, .. } => digest.finalize().as_bytes() != before,
        Identity::Btrfs { .. } => true,
    };
    let mut stale: Vec<usize> =
        (0..maps.len()).filter(|number| is_changed(&maps[*number], &digests[*number])).collect();
    let now =
        Now { held: ranges::list(now.held), unshared: ranges::list(now.unshared), outside: ranges::list(now.outside) };
    let mut sums = vec![Sum::default(); maps.len()];
    let mut of_set = Sum::default();
    for piece in &pieces {
        let range = piece.start..piece.end;
        let held: Vec<Bytes> = ranges::within(&now.held, &range).collect();
        if ranges::length(&held) < piece.end - piece.start {
            // The file that held it has other extents now.
            stale.extend(owners.find(piece.inode));
            continue;
        }
        let (bytes, is_trusted) = if piece.count == 1 {
            (ranges::length(&ranges::within(&now.unshared, &range).collect::<Vec<_>>()), false)
        } else {
            (ranges::length(&ranges::subtract(&held, &now.outside)), true)
        };
        if piece.is_alone {
            sums[piece.map as usize].add(bytes, is_trusted);
        }
        if piece.is_in_set {
            of_set.add(bytes, is_trusted);
        }
    }
    if !stale.is_empty() {
        stale.sort_unstable();
        stale.dedup();
        return Ok(Figures::Stale(stale));
    }
    let Going { bytes: own, inodes: beside } = going.into_inner();
    let link = link.as_ref();
    let of_link = |inode| link.filter(|link| link.with_set.inode == inode).map(|link| link.tree);
    let part_of = |inode| owners.find(inode).or_else(|| beside.get(&inode).copied()).or_else(|| of_link(inode));
    let made = MadeBefore {
        with_set: link.and_then(|link| link.with_set.made_in),
        with_part: link.and_then(|link| Some((link.tree, link.alone.made_in?))),
    };
    let (chunks_of_set, chunks) = chunks::freed(fd, maps.len(), part_of, |map| set[map], made).map_err(failed)?;
    let space = FreeSpace::of(fd);
    let members: Vec<usize> = (0..maps.len()).filter(|number| set[*number]).collect();
    let freed = |members: &[usize], sum: &Sum, chunks: &chunks::Freed, link: Option<&Link>| {
        let own: u64 = members.iter().map(|member| own[*member]).sum();
        let paths = members.iter().flat_map(|member| beside_paths[*member].iter().chain([&roots[*member]]));
        let paths = paths.chain(link.and_then(Link::unreplaced));
        let beside = deleted::beside(fd, &space, chunks, paths, (sum.ranges, own));
        let is_doubtful = sum.trusted > 0 && members.len() < maps.len();
        let (bytes, inode_bytes) = (own + sum.bytes + beside.bytes, chunks.bytes);
        Freed { bytes, inode_bytes, bound: Bound::of(true, is_doubtful || beside.is_estimate), ..Freed::default() }
    };
    let of_set = freed(&members, &of_set, &chunks_of_set, link.map(|link| &link.with_set));
    let mut rows = vec![Freed::default(); maps.len()];
    if each {
        for member in &members {
            let link = link.filter(|link| link.tree == *member).map(|link| &link.alone);
            rows[*member] = freed(&[*member], &sums[*member], &chunks[*member], link);
        }
    }
    Ok(Figures::Known { rows, set: of_set, mapped })
}

/// The bytes of ranges, and the part of them for which the maps of other trees were trusted.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    bytes: u64,
    trusted: u64,
    /// The number of ranges.
    ranges: u64,
}

impl Sum {
    fn add(&mut self, bytes: u64, is_trusted: bool) {
        self.ranges += 1;
        self.bytes += bytes;
        self.trusted += if is_trusted { bytes } else { 0 };
    }
}

fn runs(map: &mut Reader) -> std::io::Result<Inodes> {
    let mut inodes = Inodes::default();
    while let Some(run) = map.next_run()? {
        inodes.add_run(run);
    }
    Ok(inodes)
}

/// The parts of a range that are in sorted, disjoint pieces.
fn overlaps(pieces: &[Piece], range: &Bytes) -> Vec<Bytes> {
    let first = pieces.partition_point(|piece| piece.end <= range.start);
    let near = pieces[first..].iter().take_while(|piece| piece.start < range.end);
    near.map(|piece| piece.start.max(range.start)..piece.end.min(range.end)).collect()
}

/// Files beside the trees that are deleted with them.
struct Beside {
    /// By inode: the tree, and the number of names.
    inodes: HashMap<u64, (usize, u32)>,
}

impl Beside {
    fn find(paths: &[Vec<PathBuf>], set: &[bool]) -> Beside {
        let mut inodes = HashMap::new();
        for (number, paths) in paths.iter().enumerate().filter(|(number, _)| set[*number]) {
            for path in paths {
                let within = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
                for path in within.chain([path.clone()]) {
                    if let Ok(found) = path.symlink_metadata() {
                        let inode = std::os::unix::fs::MetadataExt::ino(&found);
                        inodes.entry(inode).or_insert((number, 0)).1 += 1;
                    }
                }
            }
        }
        Beside { inodes }
    }

    /// The tree with which this inode is deleted.
    fn of(&self, inode: &xfs::Inode) -> Option<usize> {
        let (owner, names) = self.inodes.get(&inode.number)?;
        let is_directory = FileType::from_raw_mode(inode.mode) == FileType::Directory;
        (is_directory || *names >= inode.names).then_some(*owner)
    }
}

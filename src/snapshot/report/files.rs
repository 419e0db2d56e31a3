//! The largest files of the newest snapshots, the extents of their versions, and how these share them.

use super::stats::{LargeFile, Stats, Version};
use super::work::Work;
use crate::error::{Error, Result};
use crate::extents::address_space::AddressSpace;
use crate::extents::bound::Bound;
use crate::extents::picture::Sketch;
use crate::extents::sharing::{self, Holdings, Sharing};
use crate::fs::openat;
use crate::monitor::Amount;
use crate::snapshot::log::{self, Kind};
use crate::snapshot::manifest::Item;
use crate::sys::fiemap;
use crate::tree::walk::absolute;
use crate::util::path::join;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

/// How many versions of a file are shown: the newest ones, and the oldest.
const VERSIONS: usize = 8;
/// How many extents of a version are read; a version with more is not shown. Each takes about 60 bytes.
const EXTENTS: usize = 1 << 16;

/// Finds the largest files, and reads the extents of their versions.
pub(super) fn largest(work: &Work<'_>, stats: &mut Stats) -> Result<()> {
    if work.options.files == 0 {
        return Ok(());
    }
    let newest: Vec<usize> = stats.groups.iter().filter_map(|group| group.snapshots.last().copied()).collect();
    let mut found: Vec<Found> = Vec::new();
    for row in newest {
        let row = &stats.snapshots[row];
        work.monitor.phase("looking for large files", Some(Amount { files: row.files, bytes: 0 }));
        work.of_snapshots(&[&row.name], search(work, &row.name, &mut found))?;
    }
    work.monitor.phase("reading extents", None);
    for Found { path, size, snapshot, .. } in found {
        work.check_cancelled()?;
        let file = large_file(work, &path, size, snapshot.clone());
        stats.files.extend(work.of_snapshots(&[&snapshot], file)?);
    }
    Ok(())
}

/// A file in the newest snapshot of a group.
struct Found {
    size: u64,
    path: Vec<u8>,
    inode: (u64, u64),
    snapshot: String,
}

/// Adds the largest files of a snapshot to those found, the largest first.
fn search(work: &Work<'_>, snapshot: &str, found: &mut Vec<Found>) -> Result<()> {
    let manifest = work.repository.manifest(snapshot)?;
    let mut directory = Vec::new();
    for item in manifest.items() {
        match item? {
            Item::Directory(record) => {
                work.check_cancelled()?;
                directory = record.path;
            }
            Item::Entry(entry) => {
                work.monitor.advance(Amount { files: 1, bytes: 0 });
                let Some(size) = entry.file().map(|file| file.size).filter(|size| *size > 0) else { continue };
                let is_full = found.len() >= work.options.files;
                if is_full && found.last().is_some_and(|least| size <= least.size) {
                    continue;
                }
                let inode = (entry.meta.dev, entry.meta.ino);
                let is_same = |other: &Found| other.inode == inode && other.size == size && other.snapshot == snapshot;
                if entry.meta.nlink > 1 && found.iter().any(is_same) {
                    continue;
                }
                let path = join(&directory, &entry.name);
                let place = found.partition_point(|other| other.size >= size);
                found.insert(place, Found { size, path, inode, snapshot: snapshot.to_string() });
                found.truncate(work.options.files);
            }
        }
    }
    Ok(())
}

/// The versions of a file, and their extents.
fn large_file(work: &Work<'_>, path: &[u8], size: u64, snapshot: String) -> Result<LargeFile> {
    let shown = absolute(path);
    let logged = log::log(work.repo, &shown, &log::Options::default(), work.monitor)?;
    let mut versions: Vec<Version> = logged
        .versions
        .into_iter()
        .filter_map(|version| {
            let log::Version { kind: Kind::File { size, .. }, first, last, snapshots, .. } = version else {
                return None;
            };
            Some(Version { first, last, snapshots, size, shared_bytes: None, shared_bound: Bound::Exact })
        })
        .collect();
    let all_versions = versions.len() as u64;
    if versions.len() > VERSIONS {
        versions.drain(VERSIONS - 1..versions.len() - 1);
    }
    versions.reverse();
    let (mut holdings, mut sketch) = (Holdings::default(), Sketch::new(VERSIONS));
    let (mut kept, mut paths) = (Vec::new(), Vec::new());
    for version in versions {
        let in_repository = work.repo.join(&version.last).join(shown.strip_prefix("/").unwrap_or(&shown));
        let outline = Outline { path, in_repository: &in_repository, holdings: &mut holdings, sketch: &mut sketch };
        let outlined = outline.read(work, &version);
        if work.of_snapshots(&[&version.last], outlined)? == Some(true) {
            kept.push(version);
            paths.push(in_repository);
        }
    }
    let sharing = sharing::find(holdings, &sharing::Options::default(), work.monitor)?;
    for (number, version) in kept.iter_mut().enumerate().skip(1) {
        let (bytes, bound) = shared(&sharing, number);
        (version.shared_bytes, version.shared_bound) = (Some(bytes), bound);
    }
    Ok(LargeFile { path: shown, size, snapshot, all_versions, versions: kept, sharing, sketch, paths })
}

/// What a version shares with the one before.
fn shared(sharing: &Sharing, number: usize) -> (u64, Bound) {
    let is_this = |files: [usize; 2]| files == [number - 1, number];
    let pair = sharing.pairs.iter().find(|pair| is_this(pair.files.map(|file| file.index())));
    pair.map_or((0, Bound::Exact), |pair| (pair.amount.total(), Bound::of(false, pair.amount.encoded_bytes > 0)))
}

/// A version that is being read.
struct Outline<'a> {
    path: &'a [u8],
    in_repository: &'a PathBuf,
    holdings: &'a mut Holdings,
    sketch: &'a mut Sketch,
}

impl Outline<'_> {
    /// Adds the extents of a version; false if there are too many.
    fn read(self, work: &Work<'_>, version: &Version) -> Result<bool> {
        let failed = |errno| Error::io("read the extents of", self.in_repository, errno);
        let tree = work.repository.tree(&version.last)?;
        let file = openat::open_regular_at(tree.as_fd(), self.path).map_err(failed)?;
        let number = self.holdings.begin(AddressSpace::of(&file).map_err(failed)?);
        self.sketch.begin(self.in_repository, version.size);
        let mut result = Ok(true);
        for (count, extent) in fiemap::extents(&file, false).enumerate() {
            match extent {
                Ok(extent) if count < EXTENTS => {
                    self.holdings.add(number, &extent);
                    self.sketch.add(&extent);
                }
                Ok(_) => result = Ok(false),
                Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOTTY) => result = Ok(false),
                Err(errno) => result = Err(failed(errno)),
            }
            if !matches!(result, Ok(true)) {
                break;
            }
        }
        if !matches!(result, Ok(true)) {
            self.holdings.withdraw_last();
            self.sketch.withdraw_last();
        }
        result
    }
}

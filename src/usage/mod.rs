//! The disk usage of paths, the part that they hold alone, and the bytes that deleting them would free.
//!
//! The walk (`census`) finds the inodes, each once however many names it has. Their extents are read from Btrfs's trees
//! (`trees`), or file by file (`mapped`), and kept as packed references to ranges of the disk (`references`). Only the
//! filesystem knows whether something outside the set holds a range too. On Btrfs its extent tree counts the references
//! (`backrefs`). On XFS a shared range that occurs once in the set is held outside; for a range that occurs more often,
//! all other files are mapped (`xfs`). If neither is possible, the result is marked as a bound.
//!
//! Deletion is measured, not done. Nothing here writes.

mod backrefs;
mod census;
mod device;
mod extent_tree;
mod inodes;
pub(crate) mod kept;
mod mapped;
mod metadata;
mod nodes;
mod part;
mod references;
mod trees;
mod xfs;

pub use crate::extents::bound::Bound;
pub use part::Totals;

use crate::error::{Error, Result};
use crate::extents::intervals::covered_bytes;
use crate::extents::ranges::RangeSet;
use crate::fs::filesystem::Kind;
use crate::monitor::{Amount, Event, Monitor};
use crate::sys::btrfs::logical;
use crate::tree::walk::{self, Sources};
use census::{Census, Leaving, Tally};
use device::{Device, Devices, Method, Volume};
use part::Part;
use references::cover;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use xfs::chunks::MadeBefore;
use xfs::free_space::FreeSpace;

/// How the paths are measured.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// Sync the filesystems first: data that is only in memory has no place on the disk yet.
    pub sync: bool,
    /// The number of threads for the walk.
    pub threads: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Options { sync: true, threads: None }
    }
}

/// One of the paths.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The path as the user named it.
    pub path: PathBuf,
    /// The totals of everything below it.
    pub totals: Totals,
}

/// The space that deleting the set would free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Freed {
    /// Bytes. On XFS also inodes and maps. On Btrfs only data and `metadata_bytes`.
    pub bytes: u64,
    /// The part of `bytes` in Btrfs's own trees. It is only counted for subvolumes that are deleted as a whole, and by
    /// root.
    pub metadata_bytes: u64,
    /// The part of `bytes` in chunks of inodes, and in the trees that list them (XFS).
    pub inode_bytes: u64,
    /// Further bytes for which it could not be determined whether anything outside the set holds them.
    pub undecided_bytes: u64,
    /// How exact `bytes` is.
    pub bound: Bound,
}

/// The results.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The paths that could be examined, in the order in which they were named.
    pub rows: Vec<Row>,
    /// All of them together, each inode once.
    pub set: Totals,
    /// The space that would be free without them.
    pub freed: Freed,
    /// The number of failures, which were reported to the monitor.
    pub errors: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Measures `paths`, which may overlap and may be on several filesystems. A named symbolic link is followed; links
/// below a path are not. Mount points below a path are crossed.
///
/// ```
/// use pleach::usage::{Options, measure};
/// let dir = tempfile::tempdir()?;
/// std::fs::write(dir.path().join("letter"), "Dear Ann")?;
///
/// let stats = measure(&[dir.path().into()], &Options::default(), &pleach::monitor::Silent)?;
/// assert_eq!((stats.set.files, stats.set.apparent_bytes), (1, 8));
/// println!("deleting it frees {} bytes", stats.freed.bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Memory: 36 bytes for each distinct range of the disk that the set's files refer to, and the same again for each path
/// if there are several. Inodes take at most some 40 bytes each, and usually next to nothing, since inodes of a tree
/// are numbered in runs.
pub fn measure(paths: &[PathBuf], options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    measure_set(paths, Set::Each, options, monitor)
}

/// A symbolic link that goes with the set.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Where it is.
    pub path: PathBuf,
    /// Its inode number.
    pub inode: u64,
    /// The inode number of the directory in which a link is made that takes its place, before anything is deleted.
    pub made_in: Option<u64>,
}

impl Link {
    /// Its path, if nothing takes its place. Otherwise its directory stays as it is.
    fn unreplaced(&self) -> Option<&PathBuf> {
        self.made_in.is_none().then_some(&self.path)
    }
}

/// The space that deleting all these paths together would free, with a link, and the number of failures. It takes no
/// memory for each path.
pub(crate) fn freed(
    paths: &[PathBuf],
    link: Option<&Link>,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<(Freed, u64)> {
    let stats = measure_set(paths, Set::Together(link), options, monitor)?;
    Ok((stats.freed, stats.errors))
}

/// How a set is measured.
#[derive(Clone, Copy, Debug)]
enum Set<'a> {
    /// Each path as well.
    Each,
    /// Only all paths together, with this link: a forecast of a deletion.
    Together(Option<&'a Link>),
}

fn measure_set(paths: &[PathBuf], how: Set<'_>, options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let begun = Instant::now();
    let (each, link) = match how {
        Set::Each => (true, None),
        Set::Together(link) => (false, link),
    };
    let mut errors = 0;
    let mut rows = Vec::new();
    let mut resolved = Vec::new();
    for path in paths {
        match path.canonicalize() {
            Ok(real) => {
                rows.push(Row { path: path.clone(), totals: Totals::default() });
                resolved.push(real);
            }
            Err(cause) => {
                monitor.problem(&Error::io("find", path, cause));
                errors += 1;
            }
        }
    }
    let devices = Devices::new(options.sync);
    let census = Census { devices: &devices, monitor, errors: AtomicU64::new(errors) };
    let mut tally = Tally::default();
    if each && resolved.len() > 1 {
        tally.paths.resize_with(resolved.len(), Part::default);
    }
    monitor.phase("walking", None);
    // Files after directories: a name that was already seen in its directory is not counted for the set again.
    let (directories, files): (Vec<_>, Vec<_>) = (0..resolved.len()).partition(|path| resolved[*path].is_dir());
    for path in directories.into_iter().chain(files) {
        census_of(&resolved[path], path, &census, &mut tally, options)?;
    }
    let missing = errors;
    let errors = census.errors.into_inner();
    let staying = tally.settle();
    let (volumes, devices) = devices.met();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads(options))
        .build()
        .map_err(|_| Error::failed("start the threads that measure"))?;
    // A missing path takes nothing; a path that could not be examined may take any amount.
    let mut freed = Freed { bound: Bound::of(errors > missing, false), ..Freed::default() };
    // A forecast is of one repository, which is on one volume.
    let mut whole = (!each).then(|| if volumes.len() == 1 { subvolumes(&resolved) } else { HashSet::new() });
    for volume in &volumes {
        let devices: Vec<_> = devices.iter().filter(|device| device.volume.number == volume.number).cloned().collect();
        let whole = &mut whole;
        let part = pool.install(|| match volume.method {
            Method::Trees => by_trees(volume, &devices, &mut tally, whole.take(), monitor),
            Method::Maps => by_maps(volume, &devices, &mut tally, (&staying, &resolved, link), monitor),
        })?;
        freed = freed.and(part);
    }
    // A single path is the set.
    match &mut rows[..] {
        [only] => only.totals = tally.set.totals,
        rows => rows.iter_mut().zip(&tally.paths).for_each(|(row, part)| row.totals = part.totals),
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Stats { rows, set: tally.set.totals, freed, errors, seconds })
}

fn census_of(path: &Path, number: usize, census: &Census<'_>, tally: &mut Tally, options: &Options) -> Result<()> {
    let sources = match Sources::resolve(&[path.to_path_buf()]) {
        Ok(sources) => sources,
        // Deleted since it was found.
        Err(error) => {
            census.monitor.problem(&error);
            census.errors.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
    };
    walk::walk(&sources, census, threads(options), |found| {
        found.into_iter().for_each(|found| tally.add(Some(number), found));
        Ok(())
    })
}

/// Uncached data must be read from the device: use more threads than cores, since they mostly wait.
pub(crate) fn threads(options: &Options) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    options.threads.unwrap_or_else(|| (cores * 4).clamp(4, 16))
}

/// The numbers of the subvolumes that have their root directory among these paths.
fn subvolumes(paths: &[PathBuf]) -> HashSet<u64> {
    let number = |path: &PathBuf| {
        let status = path.symlink_metadata().ok()?;
        let is_root = status.is_dir() && status.ino() == logical::ROOT_DIRECTORY;
        if is_root { logical::subvolume_of(File::open(path).ok()?).ok() } else { None }
    };
    paths.iter().filter_map(number).collect()
}

/// A Btrfs with readable trees. `whole` are subvolumes that are deleted as a whole, if the freed space of the trees
/// matters.
fn by_trees(
    volume: &Volume,
    devices: &[Arc<Device>],
    tally: &mut Tally,
    whole: Option<HashSet<u64>>,
    monitor: &dyn Monitor,
) -> Result<Freed> {
    let count = |device: &Arc<Device>| tally.set.inodes.get(device.number).map_or(0, inodes::Inodes::count);
    let expected = devices.iter().map(count).sum();
    monitor.phase("reading trees", Some(Amount { files: expected, bytes: 0 }));
    for device in devices {
        trees::sweep(device, &mut tally.paths, &mut tally.set, monitor)?;
    }
    monitor.phase("asking who shares", None);
    let subvolumes: HashSet<u64> = devices.iter().map(|device| device.tree).collect();
    // Without access to the devices, only the data is counted.
    let is_forecast = whole.is_some();
    let doomed = whole.filter(|whole| !whole.is_empty());
    let doomed = doomed.and_then(|whole| metadata::doomed(volume, whole, monitor).ok());
    let backrefs::Freed { bytes, undecided, entries, items } =
        backrefs::judge(volume, &subvolumes, doomed.as_ref(), &mut tally.paths, &mut tally.set, monitor)?;
    let metadata_bytes = doomed.as_ref().map_or(0, |doomed| doomed.bytes(items, entries, bytes));
    // The trees that describe extents may shrink by more or by less.
    let bound = Bound::of(undecided > 0 || is_forecast, doomed.is_some());
    let bytes = bytes + metadata_bytes;
    Ok(Freed { bytes, inode_bytes: 0, metadata_bytes, undecided_bytes: undecided, bound })
}

/// Any filesystem with files that were mapped one by one.
fn by_maps(
    volume: &Volume,
    devices: &[Arc<Device>],
    tally: &mut Tally,
    (staying, paths, link): (&[(usize, u64)], &[PathBuf], Option<&Link>),
    monitor: &dyn Monitor,
) -> Result<Freed> {
    for part in &mut tally.paths {
        let shared = covered_bytes(part.references(volume).sorted());
        part.totals.shared_bytes += shared;
    }
    let sorted = tally.set.references(volume).sorted();
    let shared = covered_bytes(sorted);
    // A shared range that occurs once is also held by something outside. So is a range of a file that stays.
    let mut doubtful = RangeSet::default();
    cover(sorted, |range, count, leaving| {
        if count >= 2 && leaving == count {
            doubtful.insert(range);
        }
    });
    tally.set.totals.shared_bytes += shared;
    let Leaving { own, encoded, extents, unmapped } = tally.leaving.get(volume.number).copied().unwrap_or_default();
    let mut freed = Freed { bytes: own - encoded, undecided_bytes: encoded, ..Freed::default() };
    let (mut is_at_least, mut is_at_most) = (false, false);
    match volume.kind {
        Kind::Xfs => {
            let device = devices.first().map_or(0, |device| device.number);
            let empty = inodes::Inodes::default();
            let inodes = tally.set.inodes.get(device).unwrap_or(&empty);
            let staying: HashSet<u64> =
                staying.iter().filter(|(on, _)| *on == device).map(|(_, inode)| *inode).collect();
            let mut ranges = extents;
            if !doubtful.is_empty() {
                monitor.phase("asking other files", None);
                match ask_others(volume, inodes, &doubtful, monitor) {
                    Ok(certain) => {
                        freed.bytes += certain.length();
                        ranges += certain.count();
                    }
                    Err(error) if monitor.is_cancelled() => return Err(error),
                    Err(error) => {
                        monitor.event(Event::SharersUnknown(&error));
                        freed.undecided_bytes += doubtful.length();
                    }
                }
            }
            let is_link = |inode| link.is_some_and(|link| link.inode == inode);
            let part_of = |inode| (is_link(inode) || inodes.contains(inode) && !staying.contains(&inode)).then_some(0);
            let made = MadeBefore { with_set: link.and_then(|link| link.made_in), with_part: None };
            match xfs::chunks::freed(&volume.fd, 1, part_of, |_| true, made) {
                Ok((chunks, _)) => {
                    let space = FreeSpace::of(&volume.fd);
                    let paths = paths.iter().chain(link.and_then(Link::unreplaced));
                    let beside = xfs::beside(&volume.fd, &space, &chunks, paths, (ranges, unmapped));
                    freed.inode_bytes = chunks.bytes;
                    freed.bytes += beside.bytes;
                    (is_at_least, is_at_most) = (is_at_least || beside.is_estimate, beside.is_estimate);
                }
                // Only root may read this.
                Err(_) => is_at_least = true,
            }
        }
        Kind::Ext4 => {}
        // An extent is freed as a whole, with parts of it that no file shows any more.
        Kind::Btrfs => {
            is_at_least = true;
            freed.undecided_bytes += doubtful.length();
        }
        _ => {
            is_at_most = !volume.lacks_maps();
            freed.undecided_bytes += doubtful.length();
        }
    }
    is_at_least |= freed.undecided_bytes > 0;
    freed.bound = Bound::of(is_at_least, is_at_most);
    Ok(freed)
}

/// The ranges of `doubtful` that no other file holds.
fn ask_others(
    volume: &Volume,
    inodes: &inodes::Inodes,
    doubtful: &RangeSet,
    monitor: &dyn Monitor,
) -> Result<RangeSet> {
    let mut rest = doubtful.clone();
    xfs::subtract_outside(volume, inodes, &mut rest, monitor)?;
    Ok(rest)
}

impl Freed {
    fn and(self, other: Freed) -> Freed {
        Freed {
            bytes: self.bytes + other.bytes,
            inode_bytes: self.inode_bytes + other.inode_bytes,
            metadata_bytes: self.metadata_bytes + other.metadata_bytes,
            undecided_bytes: self.undecided_bytes + other.undecided_bytes,
            bound: self.bound.and(other.bound),
        }
    }
}

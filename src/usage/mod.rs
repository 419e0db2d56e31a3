//! The disk usage of paths, the part that they hold alone, and the bytes that deleting them would free.
//!
//! The walk (`census`) finds the inodes, each once however many names it has. Their extents are read from Btrfs's trees
//! (`trees`), or file by file (`mapped`), and kept as packed references to ranges of the disk (`references`). Only the
//! filesystem knows whether something outside the set holds a range too. On Btrfs its extent tree counts the references
//! (`backrefs`). On XFS a shared range that occurs once in the set is held outside; for a range that occurs more often,
//! all other files are mapped (`maps`). If neither is possible, the result is marked as a bound.
//!
//! The reverse map of an XFS has the owners of all blocks, in the set and outside it. With it, inodes are examined by
//! their numbers, and no extent is kept (`numbers`).
//!
//! Deletion is measured, not done. Nothing here writes.

mod backrefs;
mod census;
mod device;
mod extent_tree;
mod freed;
#[cfg(feature = "testing")]
pub(crate) mod fuzz;
mod groups;
mod inodes;
pub(crate) mod kept;
mod mapped;
mod maps;
mod metadata;
mod nodes;
mod numbers;
mod part;
mod references;
mod runs;
mod trees;
mod unshared;
mod xfs;

pub use crate::extents::bound::Bound;
pub use freed::Freed;
pub(crate) use freed::Link;
pub(crate) use inodes::Inodes;
pub use part::Totals;
pub(crate) use unshared::Unshared;

use crate::error::{Error, Result};
use crate::monitor::attempts::Attempts;
use crate::monitor::{Amount, Monitor};
use crate::sys::btrfs::logical;
use crate::tree::walk::{self, Sources};
use crate::util::pool::Pool;
use backrefs::{Held, Holders};
use census::{Census, Tally};
use device::{Device, Devices, Method, Volume};
use part::Part;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use xfs::deleted::Deleted;

/// How often a set is measured at most. It is measured again if inodes cannot be listed by their numbers, or if a
/// subvolume was deleted meanwhile.
const ATTEMPTS: u32 = 8;

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
/// if there are several. On an XFS with a reverse map, at most 48 bytes for each file instead. Inodes take at most some
/// 40 bytes each. Both usually take next to nothing, since inodes of a tree are numbered in runs.
pub fn measure(paths: &[PathBuf], options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    measure_set(paths, Set::Each, options, monitor)
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
    let mut attempts = Attempts::new(monitor);
    for number in 0..ATTEMPTS {
        if let Some(stats) = attempt(paths, how, options, number == 0, &attempts)? {
            return Ok(Stats { seconds: begun.elapsed().as_secs_f64(), ..stats });
        }
        attempts = attempts.again();
    }
    Err(Error::failed("examine the files").hint("they were deleted or changed meanwhile; run again"))
}

/// Measures a set. `None` if it must be measured again. Either inodes cannot be listed by their numbers, for example
/// because one is damaged: then each file must be examined by its name. Or a subvolume was deleted meanwhile.
fn attempt(
    paths: &[PathBuf],
    how: Set<'_>,
    options: &Options,
    by_numbers: bool,
    monitor: &dyn Monitor,
) -> Result<Option<Stats>> {
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
    let devices = Devices::new(options.sync, by_numbers);
    let census = Census::new(&devices, monitor, errors);
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
    let mut errors = census.errors.into_inner();
    let staying = tally.settle();
    let (volumes, devices) = devices.met();
    let pool = Pool::start(threads(options)).map_err(|_| Error::failed("start the threads that measure"))?;
    // A missing path takes nothing; a path that could not be examined may take any amount.
    let mut freed = Freed { bound: Bound::of(errors > missing, false), ..Freed::default() };
    // A forecast is of one repository, which is on one volume.
    let mut whole = (!each).then(|| if volumes.len() == 1 { subvolumes(&resolved) } else { HashSet::new() });
    for volume in &volumes {
        let devices: Vec<_> = devices.iter().filter(|device| device.volume.number == volume.number).cloned().collect();
        let Some(device) = devices.first() else { continue };
        let whole = &mut whole;
        let judged = pool.install(|| match volume.method {
            Method::Trees => {
                let freed = by_trees(volume, &devices, &mut tally, whole.take(), monitor)?;
                Ok(freed.map(|freed| (freed, 0)))
            }
            Method::Numbers => {
                let inodes = tally.set.take_inodes(device.number);
                numbers::judge(device, &mut tally, &inodes, (&resolved, link), monitor)
            }
            Method::Maps => {
                let inodes = tally.set.take_inodes(device.number);
                let staying = staying.iter().filter(|(on, _)| *on == device.number).map(|(_, inode)| *inode).collect();
                let deleted = Deleted { inodes: &inodes, staying: &staying, paths: &resolved, link };
                Ok(Some((maps::judge(volume, &mut tally, &deleted, monitor)?, 0)))
            }
        });
        let Some((part, unreadable)) = judged? else { return Ok(None) };
        errors += unreadable;
        freed = freed.and(part);
    }
    // A single path is the set.
    match &mut rows[..] {
        [only] => only.totals = tally.set.totals,
        rows => rows.iter_mut().zip(&tally.paths).for_each(|(row, part)| row.totals = part.totals),
    }
    Ok(Some(Stats { rows, set: tally.set.totals, freed, errors, seconds: 0.0 }))
}

fn census_of(path: &Path, number: usize, census: &Census<'_>, tally: &mut Tally, options: &Options) -> Result<()> {
    // If it was deleted since it was found, the walk reports it.
    let sources = Sources::exact(vec![path.to_path_buf()]);
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
/// matters. `None` if a subvolume was deleted meanwhile.
fn by_trees(
    volume: &Volume,
    devices: &[Arc<Device>],
    tally: &mut Tally,
    whole: Option<HashSet<u64>>,
    monitor: &dyn Monitor,
) -> Result<Option<Freed>> {
    let count = |device: &Arc<Device>| tally.set.inodes.get(device.number).map_or(0, Inodes::count);
    let expected = devices.iter().map(count).sum();
    monitor.phase("reading trees", Some(Amount { files: expected, bytes: 0 }));
    for device in devices {
        if !trees::sweep(device, &mut tally.paths, &mut tally.set, monitor)? {
            return Ok(None);
        }
    }
    monitor.phase("asking who shares", None);
    let mut holders = Holders::new();
    for device in devices {
        holders.insert(device.tree, Held::These(tally.set.take_inodes(device.number)));
    }
    // Without access to the devices, only the data is counted.
    let is_forecast = whole.is_some();
    let doomed = whole.filter(|whole| !whole.is_empty());
    let doomed = doomed.and_then(|whole| metadata::doomed(volume, whole, monitor).ok());
    let backrefs::Freed { bytes, undecided, entries, items } =
        backrefs::judge(volume, &holders, doomed.as_ref(), &mut tally.paths, &mut tally.set, monitor)?;
    let metadata_bytes = doomed.as_ref().map_or(0, |doomed| doomed.bytes(items, entries, bytes));
    // The trees that describe extents may shrink by more or by less.
    let bound = Bound::of(undecided > 0 || is_forecast, doomed.is_some());
    let bytes = bytes + metadata_bytes;
    Ok(Some(Freed { bytes, inode_bytes: 0, metadata_bytes, undecided_bytes: undecided, bound }))
}

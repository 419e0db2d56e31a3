//! Measures what each snapshot alone holds, and what a set of snapshots would free. Nothing here writes.

use super::measured::measured;
use super::prune::forecast::forecast;
use super::repository::Repository;
use super::space_maps::{self, Figures, Work};
use crate::error::Result;
use crate::monitor::Monitor;
use crate::usage;
pub use crate::usage::{Bound, Freed};
use std::path::Path;
use std::time::Instant;

/// How snapshots are measured.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// Sync the filesystem first: data that is only in memory has no place on the disk yet.
    pub sync: bool,
    /// The number of threads.
    pub threads: Option<usize>,
    /// Measure everything anew. Without it, maps of the snapshots that an earlier run kept are used as far as they fit.
    pub measure_again: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { sync: true, threads: None, measure_again: false }
    }
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The space that removing this snapshot alone would free: what nothing else holds, neither another snapshot nor
    /// any other file of the filesystem.
    pub freed: Freed,
}

/// The results.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The snapshots, in the order in which they were named; all of them, oldest first, if none was named.
    pub rows: Vec<Row>,
    /// The space that removing all of them together would free. This is often more than the sum of the rows, since
    /// they share data with each other.
    pub set: Freed,
    /// The number of maps of snapshots that were made and kept for the next time.
    pub new_maps: u64,
    /// The number of files that were mapped to make maps, or to check them. If maps could not be used, further files
    /// were examined.
    pub mapped_files: u64,
    /// Whether the figures come from kept maps.
    pub from_maps: bool,
    /// The number of failures, which were reported to the monitor.
    pub errors: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Measures the snapshots that `ids` mean in the repository at `repo`, or all if there are no `ids`. The figures are
/// those of a dry run of [`remove`](super::remove::remove), except that pinned snapshots count as well.
///
/// ```
/// use pleach::monitor::Silent;
/// use pleach::snapshot::{create, du};
/// let dir = tempfile::tempdir()?;
/// let (source, repo) = (dir.path().join("source"), dir.path().join("repo"));
/// std::fs::create_dir(&source)?;
/// std::fs::write(source.join("letter"), "Dear Ann")?;
/// create::create(&[source], &repo, &create::Options::default(), &Silent)?;
///
/// let stats = du::du(&repo, &["latest"], &du::Options::default(), &Silent)?;
/// println!("removing {} frees {} bytes", stats.rows[0].name, stats.rows[0].freed.bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// If no snapshot is named, a map of each snapshot is kept in the repository. This needs XFS or Btrfs, and a
/// repository that can be written to. Later runs then examine only what may have changed. Otherwise the repository is
/// read once for the set, and once more for each snapshot if there are several. It may be mounted read-only, and no
/// lock is taken.
///
/// A snapshot that is deleted meanwhile is reported as an event, and is not a failure. The others are measured again.
///
/// Memory: that of [`measure`](crate::usage::measure) for the set alone, whatever the number of snapshots.
///
/// # Errors
/// If an ID means no snapshot or several, the repository cannot be opened, or the run is cancelled.
pub fn du(repo: &Path, ids: &[&str], options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let begun = Instant::now();
    let repository = Repository::open(repo)?;
    let mut stats = Stats::default();
    let mut names: Vec<String> = Vec::new();
    if ids.is_empty() {
        let listing = repository.listing()?;
        listing.problems.iter().for_each(|problem| monitor.problem(problem));
        repository.report_strays(monitor)?;
        stats.errors += listing.problems.len() as u64;
        names.extend(listing.snapshots.into_iter().map(|info| info.name));
    }
    for id in ids {
        let name = repository.name_of(id)?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut work = Work::default();
    let (names, measurement) = measured(&repository, names, monitor, |names, monitor| {
        measure(&repository, names, ids.is_empty(), options, monitor, &mut work)
    })?;
    let Measurement { set, rows, errors, from_maps } = measurement;
    stats.rows.extend(names.into_iter().zip(rows).map(|(name, freed)| Row { name, freed }));
    stats.errors += errors;
    (stats.set, stats.from_maps) = (set, from_maps);
    (stats.new_maps, stats.mapped_files) = (work.made, work.mapped);
    stats.seconds = begun.elapsed().as_secs_f64();
    Ok(stats)
}

/// The figures of some snapshots, in their order.
#[derive(Debug, Default)]
struct Measurement {
    set: Freed,
    rows: Vec<Freed>,
    errors: u64,
    from_maps: bool,
}

/// Measures these snapshots, with maps if possible. `all`: these are all snapshots, and maps of them are kept.
fn measure(
    repository: &Repository,
    names: &[String],
    all: bool,
    options: &Options,
    monitor: &dyn Monitor,
    work: &mut Work,
) -> Result<Measurement> {
    let usage = usage::Options { sync: options.sync, threads: options.threads };
    // The sync of the filesystem, if any, is the first thing that each of these does.
    if all {
        space_maps::prepare(repository, names, options.measure_again, &usage, monitor, work)?;
    }
    let figures = match options.measure_again || names.is_empty() {
        true => None,
        false => space_maps::figures(repository, names, (true, all), &usage, monitor, work)?,
    };
    match figures {
        Some(Figures { rows, set }) => Ok(Measurement { set, rows, errors: 0, from_maps: true }),
        None => anew(repository, names, &usage, monitor),
    }
}

/// Measures without maps.
fn anew(
    repository: &Repository,
    names: &[String],
    options: &usage::Options,
    monitor: &dyn Monitor,
) -> Result<Measurement> {
    let (set, mut errors) = forecast(repository, names, options, monitor)?;
    // The set's pass has synced the filesystem.
    let unsynced = usage::Options { sync: false, ..*options };
    let mut rows = Vec::new();
    for name in names {
        if names.len() == 1 {
            rows.push(set);
            continue;
        }
        let (freed, failures) = forecast(repository, std::slice::from_ref(name), &unsynced, monitor)?;
        errors += failures;
        rows.push(freed);
    }
    Ok(Measurement { set, rows, errors, from_maps: false })
}

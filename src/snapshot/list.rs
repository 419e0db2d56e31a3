//! Lists the snapshots of a repository: quickly from the ends of their manifests, and on request with their exclusive
//! data.

mod each_file;
mod reverse_map;

use super::manifest::{Header, Time, Totals};
use super::repository::{self, Added, Marks, Repository, SnapshotInfo};
use super::space_maps;
use crate::error::{Error, Result};
use crate::monitor::{Amount, Event, Monitor};
use crate::util::pool::Pool;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Options of [`list`].
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "testing"), non_exhaustive)]
pub struct Options {
    /// Measure the data that each snapshot alone holds. This costs some calls for each file, except as root on an XFS
    /// with a reverse map.
    pub exclusive: bool,
    /// How many threads measure; by default as many as there are processors.
    pub threads: Option<usize>,
}

/// A snapshot of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// Its name, which is also the name of its directory in the repository.
    pub name: String,
    /// The time when it was begun.
    pub created: Time,
    /// The machine's name.
    pub host: String,
    /// The absolute paths of its sources.
    pub sources: Vec<PathBuf>,
    /// The tags given by the user.
    pub tags: Vec<String>,
    /// Whether it is pinned, so that it is not removed.
    pub pinned: bool,
    /// The sums over its entries.
    pub totals: Totals,
    /// Bytes of its extents that no other file holds, in this snapshot or elsewhere. Deleting the snapshot frees at
    /// least these. (Data that only its own files share with each other is freed too, but not counted.) Measured from
    /// extents, on request.
    pub exclusive_bytes: Option<u64>,
    /// Bytes of the disk that it holds and no other snapshot of the repository does, by the maps that
    /// [`du`](super::du::du) keeps; `None` without a map of it. Other files may hold them too.
    pub only_here_bytes: Option<u64>,
    /// Whether all snapshots have maps. Otherwise `only_here_bytes` is an upper bound.
    pub has_all_maps: bool,
    /// The space that it added on the disk, measured when it was made; `None` if that was not recorded.
    pub added: Option<Added>,
}

/// The list and its sums.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The snapshots, oldest first.
    pub rows: Vec<Row>,
    /// Manifests and files that could not be read; each was reported to the monitor.
    pub errors: u64,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// Lists the snapshots of the repository at `repo`.
///
/// ```
/// use pleach::monitor::Silent;
/// use pleach::snapshot::{create, list};
/// let dir = tempfile::tempdir()?;
/// let (source, repo) = (dir.path().join("source"), dir.path().join("repo"));
/// std::fs::create_dir(&source)?;
/// std::fs::write(source.join("letter"), "Dear Ann")?;
/// create::create(&[source], &repo, &create::Options::default(), &Silent)?;
///
/// let snapshots = list::list(&repo, &list::Options::default(), &Silent)?;
/// assert_eq!(snapshots.rows[0].totals.files, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the repository cannot be opened, or the run is cancelled. A damaged manifest is reported as a problem and hides
/// no other snapshot.
pub fn list(repo: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Stats> {
    let begun = Instant::now();
    let repository = Repository::open(repo)?;
    let listing = repository.listing()?;
    listing.problems.iter().for_each(|problem| monitor.problem(problem));
    repository.report_strays(monitor)?;
    let mut stats = Stats { errors: listing.problems.len() as u64, ..Stats::default() };
    // 0: one for each processor.
    let pool = || Pool::start(options.threads.unwrap_or(0));
    let pool = options.exclusive.then(pool).transpose();
    let pool = pool.map_err(|_| Error::failed("start the threads that measure"))?;
    let mut names: Vec<String> = listing.snapshots.iter().map(|info| info.name.clone()).collect();
    names.extend(listing.unlisted);
    let (mut only_here, has_all_maps) = space_maps::alone(&repository, &names);
    let mut measured = HashMap::new();
    if options.exclusive {
        let names: Vec<String> = listing.snapshots.iter().map(|info| info.name.clone()).collect();
        let measure = || reverse_map::exclusive(&repository, &names, monitor);
        measured = pool.as_ref().map_or_else(measure, |pool| pool.install(measure))?;
    }
    for info in listing.snapshots {
        let mut exclusive_bytes = None;
        if options.exclusive {
            let expected = Amount { files: info.totals.files, bytes: 0 };
            monitor.phase(&format!("measuring {}", info.name), Some(expected));
            let measure = || each_file::exclusive(&repository, &info.name, monitor);
            let measure = || pool.as_ref().map_or_else(measure, |pool| pool.install(measure));
            match measured.remove(&info.name).unwrap_or_else(measure) {
                Ok((bytes, errors)) => {
                    exclusive_bytes = Some(bytes);
                    stats.errors += errors;
                }
                Err(error) if monitor.is_cancelled() => return Err(error),
                Err(_) if is_deleted(&repository, &info.name) => {
                    monitor.event(Event::SnapshotNotMeasured(&info.name));
                    continue;
                }
                Err(error) => {
                    monitor.problem(&error);
                    stats.errors += 1;
                }
            }
        }
        let added = repository::added(&repository, &info.name);
        let marks = repository::marks(&repository, &info.name, &info.header.tags).unwrap_or_else(|error| {
            monitor.problem(&error);
            stats.errors += 1;
            Marks { tags: info.header.tags.clone(), pinned: true }
        });
        let only_here_bytes = only_here.remove(&info.name);
        stats.rows.push(Row { only_here_bytes, has_all_maps, ..row(info, marks, exclusive_bytes, added) });
    }
    stats.seconds = begun.elapsed().as_secs_f64();
    Ok(stats)
}

/// Whether a snapshot that was there is deleted now.
pub(super) fn is_deleted(repository: &Repository, name: &str) -> bool {
    repository.manifest(name).is_err_and(|error| error.is_not_found())
}

fn row(info: SnapshotInfo, marks: Marks, exclusive_bytes: Option<u64>, added: Option<Added>) -> Row {
    let sources = info.sources().map(Path::to_path_buf).collect();
    let SnapshotInfo { name, header, totals } = info;
    let Header { created, host, .. } = header;
    let Marks { tags, pinned } = marks;
    let (only_here_bytes, has_all_maps) = (None, false);
    Row { name, created, host, sources, tags, pinned, totals, exclusive_bytes, only_here_bytes, has_all_maps, added }
}
